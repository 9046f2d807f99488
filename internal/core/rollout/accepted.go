package rollout

import (
	"fmt"
	"slices"
	"strings"
)

// Accepted is a wave that an operator let pass. Its hosts that wait are served as
// late ones and hold the rollout no more; Hosts had required evidence that did
// not pass, which holds nothing behind them as long as the rollout lasts.
type Accepted struct {
	Wave   int      `json:"wave"`
	Hosts  []string `json:"hosts,omitempty"` // sorted
	Reason string   `json:"reason"`
	Actor  string   `json:"actor"`
}

// Words name who answers for it, for people.
func (a *Accepted) Words() string { return "accepted by " + a.Actor + ": " + a.Reason }

// Forced returns how a wave passed on an operator's word, or nil.
func (r *Rollout) Forced(wave int) *Accepted {
	for i := range r.Accepted {
		if r.Accepted[i].Wave == wave {
			return &r.Accepted[i]
		}
	}
	return nil
}

// Excused returns who accepted that a host's required evidence does not pass, or
// nil.
func (r *Rollout) Excused(host string) *Accepted {
	for i := range r.Accepted {
		if _, found := slices.BinarySearch(r.Accepted[i].Hosts, host); found {
			return &r.Accepted[i]
		}
	}
	return nil
}

// Due counts the hosts that the end of the rollout waits for to start: those of
// waves that an operator let pass are late.
func (r *Rollout) Due() int {
	n := 0
	for w := range r.Waves {
		if r.Forced(w) == nil {
			n += r.Waves[w].Ready()
		}
	}
	return n
}

// Skipped counts the hosts that are away, those left behind aside.
func (r *Rollout) Skipped() int {
	n := 0
	for w := range r.Waves {
		if r.Forced(w) == nil {
			n += r.Waves[w].Offline
		}
	}
	return n
}

// LeftBehind names the hosts that wait in waves which an operator let pass, the
// first of them alone; empty without any.
func (r *Rollout) LeftBehind() string {
	const most = 5
	var names []string
	n := 0
	for i := range r.Members {
		leaf := &r.Plan.Leaves[i]
		if r.Members[i].Status != Waiting || r.Forced(leaf.Wave) == nil {
			continue
		}
		if n++; n <= most {
			names = append(names, leaf.Host)
		}
	}
	switch {
	case n == 0:
		return ""
	case n > most:
		return fmt.Sprintf("%d left behind: %s and %d more", n, strings.Join(names, ", "), n-most)
	}
	return fmt.Sprintf("%d left behind: %s", n, strings.Join(names, ", "))
}
