package engine

import (
	"fmt"
	"time"
)

// DriftMode is what to do about drift from a generation that had converged.
type DriftMode string

// The modes.
const (
	Report  DriftMode = "report"  // record it and leave it alone
	Enforce DriftMode = "enforce" // repair it
)

// Policy is data, one per kind. Zero fields take the default named beside them.
type Policy struct {
	Retry          RetryPolicy   `json:"retry"`
	ActTimeout     time.Duration `json:"actTimeout"`       // per act; 1m
	ObserveTimeout time.Duration `json:"observeTimeout"`   // per observe; 30s
	MaxSteps       int           `json:"maxSteps"`         // acts that made progress before the generation converged; 64
	CleanupGrace   time.Duration `json:"cleanupGrace"`     // from the deletion request to Orphaned; 10m
	OnChildFailure FailureAction `json:"onChildFailure"`   // Continue
	OnDrift        DriftMode     `json:"onDrift"`          // Enforce
	Resync         time.Duration `json:"resync,omitempty"` // period of looking without a trigger; 0 none
	History        History       `json:"history"`
	// Revive is when what was given up gets another life: its attempts afresh. Each wait is twice
	// the one before it, up to ReviveCap. 0 is 5m for what ran out of attempts, and never for
	// what failed otherwise: by a Terminal error, its ConvergeBy, its steps or a child. Never (-1) is never.
	Revive    time.Duration `json:"revive,omitempty"`
	ReviveCap time.Duration `json:"reviveCap,omitempty"` // 1h, or Revive if that is longer
}

// Never as the Revive of a policy has what was given up stay so.
const Never time.Duration = -1

// reviveExhausted is the Revive of what ran out of attempts under a policy that names none.
const reviveExhausted = 5 * time.Minute

// RetryPolicy bounds attempts per generation.
type RetryPolicy struct {
	Max  int           `json:"max"`  // 5
	Base time.Duration `json:"base"` // first delay; 1s
	Cap  time.Duration `json:"cap"`  // longest delay; 1m
}

// History bounds what is kept of one resource's transitions. The newest
// transition into each phase is always kept.
type History struct {
	Keep int           `json:"keep"`          // newest N; 50; negative turns history off
	Age  time.Duration `json:"age,omitempty"` // and no older than this; 0 no limit; also how long deleted rows stay (7d if 0)
}

// WithDefaults fills the zero fields.
func (p Policy) WithDefaults() Policy {
	def(&p.Retry.Max, 5)
	def(&p.Retry.Base, time.Second)
	def(&p.Retry.Cap, time.Minute)
	def(&p.ActTimeout, time.Minute)
	def(&p.ObserveTimeout, 30*time.Second)
	def(&p.MaxSteps, 64)
	def(&p.CleanupGrace, 10*time.Minute)
	def(&p.OnChildFailure, Continue)
	def(&p.OnDrift, Enforce)
	def(&p.History.Keep, 50)
	def(&p.ReviveCap, max(p.Revive, time.Hour))
	return p
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// The bounds of a policy's times. What is out of them was written in another unit.
const (
	shortest = time.Millisecond
	longest  = 10 * 365 * 24 * time.Hour
)

// durations are the times of a policy; those that are optional may be 0.
func (p *Policy) durations() []struct {
	name     string
	d        time.Duration
	optional bool
} {
	return []struct {
		name     string
		d        time.Duration
		optional bool
	}{
		{"retry.base", p.Retry.Base, false}, {"retry.cap", p.Retry.Cap, false},
		{"actTimeout", p.ActTimeout, false}, {"observeTimeout", p.ObserveTimeout, false}, {"cleanupGrace", p.CleanupGrace, false},
		{"resync", p.Resync, true}, {"revive", p.Revive, true}, {"reviveCap", p.ReviveCap, false}, {"history.age", p.History.Age, true},
	}
}

// Validate reports a policy that cannot work. Call it on WithDefaults.
func (p Policy) Validate() error {
	for _, v := range p.durations() {
		if v.optional && v.d == 0 || v.name == "revive" && v.d == Never || v.d >= shortest && v.d <= longest {
			continue
		}
		return fmt.Errorf("%s is %s, want between %s and %dh; a time.Duration counts nanoseconds: write 30*time.Second", v.name, v.d, shortest, longest/time.Hour)
	}
	switch {
	case p.Retry.Max < 1, p.Retry.Cap < p.Retry.Base:
		return fmt.Errorf("retry {max %d, base %s, cap %s}: want max >= 1 and base <= cap", p.Retry.Max, p.Retry.Base, p.Retry.Cap)
	case p.MaxSteps < 1:
		return fmt.Errorf("maxSteps is %d, want at least 1", p.MaxSteps)
	case p.ReviveCap < p.Revive:
		return fmt.Errorf("reviveCap %s: want at least revive, %s", p.ReviveCap, p.Revive)
	case p.OnChildFailure != Continue && p.OnChildFailure != Abort:
		return fmt.Errorf("onChildFailure %q: want continue or abort", p.OnChildFailure)
	case p.OnDrift != Report && p.OnDrift != Enforce:
		return fmt.Errorf("onDrift %q: want report or enforce", p.OnDrift)
	}
	return nil
}

// Backoff is the delay before attempt n+1 after n failed ones: exponential from
// Base to Cap, less up to a quarter of jitter taken from the hash of ref,
// generation and attempt, so that a fleet spreads out and a replay agrees.
func Backoff(r RetryPolicy, ref Ref, generation int64, attempt int) time.Duration {
	d := r.Base
	for i := 1; i < attempt && d < r.Cap; i++ {
		d *= 2
	}
	d = min(d, r.Cap)
	h := mix(ref.Hash() ^ uint64(generation)*fnvPrime ^ uint64(attempt)<<48)
	return max(1, d-time.Duration(h%uint64(d/4+1)))
}

// ResyncDelay is the time to the next resync of ref: the period less up to a
// tenth, by hash, so that resources do not move in step. Zero if there is none.
func (p *Policy) ResyncDelay(ref Ref) time.Duration {
	if p.Resync <= 0 {
		return 0
	}
	return max(1, p.Resync-time.Duration(ref.Hash()%uint64(p.Resync/10+1)))
}
