package engine

import "fmt"

// DriftMode is what to do about drift from a generation that had converged.
type DriftMode string

// The modes.
const (
	Report  DriftMode = "report"  // record it and leave it alone
	Enforce DriftMode = "enforce" // repair it
)

// Policy is data, one per kind. Zero fields take the default named beside them.
type Policy struct {
	Retry          RetryPolicy `json:"retry"`
	ActTimeout     Duration    `json:"actTimeout"`               // per act; 1m
	ObserveTimeout Duration    `json:"observeTimeout"`           // per observe; 30s
	MaxSteps       int         `json:"maxSteps"`                 // acts that made progress before the generation converged; 64
	ConvergeWithin Duration    `json:"convergeWithin,omitempty"` // from the change of desired state; 0 none
	CleanupGrace   Duration    `json:"cleanupGrace"`             // from retire to Orphaned; 10m
	OnChildFailure Ruling      `json:"onChildFailure"`           // Continue
	OnDrift        DriftMode   `json:"onDrift"`                  // Report
	Resync         Duration    `json:"resync,omitempty"`         // period of looking without a trigger; 0 none
	History        History     `json:"history"`
	// Revive is when what was given up gets another life, 0 never. Each wait is twice
	// the one before it, up to ReviveCap.
	Revive    Duration `json:"revive,omitempty"`
	ReviveCap Duration `json:"reviveCap,omitempty"` // 1h, or Revive if that is longer
}

// RetryPolicy bounds attempts per generation.
type RetryPolicy struct {
	Max  int      `json:"max"`  // 5
	Base Duration `json:"base"` // first delay; 1s
	Cap  Duration `json:"cap"`  // longest delay; 1m
}

// History bounds what is kept of one resource's transitions. The newest
// transition into each phase is always kept.
type History struct {
	Keep int      `json:"keep"`          // newest N; 50; negative turns history off
	Age  Duration `json:"age,omitempty"` // and no older than this; 0 no limit; also how long retired rows stay (7d if 0)
}

// WithDefaults fills the zero fields.
func (p Policy) WithDefaults() Policy {
	def(&p.Retry.Max, 5)
	def(&p.Retry.Base, Duration(1_000))
	def(&p.Retry.Cap, Duration(60_000))
	def(&p.ActTimeout, Duration(60_000))
	def(&p.ObserveTimeout, Duration(30_000))
	def(&p.MaxSteps, 64)
	def(&p.CleanupGrace, Duration(600_000))
	def(&p.OnChildFailure, Continue)
	def(&p.OnDrift, Report)
	def(&p.History.Keep, 50)
	def(&p.ReviveCap, max(p.Revive, Duration(3_600_000)))
	return p
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Validate reports a policy that cannot work. Call it on WithDefaults.
func (p Policy) Validate() error {
	switch {
	case p.Retry.Max < 1, p.Retry.Base < 1, p.Retry.Cap < p.Retry.Base:
		return fmt.Errorf("retry {max %d, base %s, cap %s}: want max >= 1 and 1ms <= base <= cap", p.Retry.Max, p.Retry.Base, p.Retry.Cap)
	case p.ActTimeout < 1, p.ObserveTimeout < 1, p.CleanupGrace < 1, p.MaxSteps < 1:
		return fmt.Errorf("actTimeout, observeTimeout, cleanupGrace and maxSteps must be positive")
	case p.ConvergeWithin < 0, p.Resync < 0, p.Revive < 0, p.History.Age < 0:
		return fmt.Errorf("convergeWithin, resync, revive and history.age must not be negative")
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
func Backoff(r RetryPolicy, ref Ref, generation int64, attempt int) Duration {
	d := r.Base
	for i := 1; i < attempt && d < r.Cap; i++ {
		d *= 2
	}
	d = min(d, r.Cap)
	h := mix(ref.Hash() ^ uint64(generation)*fnvPrime ^ uint64(attempt)<<48)
	return max(1, d-Duration(h%uint64(d/4+1)))
}

// ResyncDelay is the time to the next resync of ref: the period less up to a
// tenth, by hash, so that resources do not move in step. Zero if there is none.
func (p *Policy) ResyncDelay(ref Ref) Duration {
	if p.Resync <= 0 {
		return 0
	}
	return max(1, p.Resync-Duration(ref.Hash()%uint64(p.Resync/10+1)))
}
