// Package readiness says whether a server is alive and whether it can do its work,
// and if not, why and what to do. Probes of machines and people read the answers.
package readiness

import "github.com/steadyfleet/steady/internal/core/clock"

// Facts are what a server observes of itself.
type Facts struct {
	Stopping bool
	// Broken is why the store ended, Unwritable why nothing can be written to it
	// though it did not; both are empty while all is well.
	Broken, Unwritable string
	// Full says that there is no room: on the disk, or below the bound of the log.
	Full bool
	// Fenced says that another server leads.
	Fenced bool
	// SafeMode says why nothing is granted, or is empty.
	SafeMode string
	// Busy is how long the reducer has been in its present round.
	Busy clock.Duration
}

// Stuck is how long a round of the reducer takes at most in a server that is well.
const Stuck = 30 * clock.Second

// Reason is one thing that is wrong.
type Reason struct {
	Check   string `json:"check"`
	Message string `json:"message"`
	Next    string `json:"next"`
}

// Dead lists why the process should be started again; empty while it is alive. A
// full disk is no reason: another process would find it just as full.
func Dead(f Facts) []Reason {
	out := []Reason{}
	if f.Stopping {
		out = append(out, Reason{"running", "the server is stopping", "wait until it has started again"})
	}
	if f.Broken != "" {
		out = append(out, Reason{"store", f.Broken, "look at the disk of the data folder, then start the server again"})
	}
	if f.Busy > Stuck {
		out = append(out, Reason{"reducer", "the server has been busy with one step for " + f.Busy.String(), "look at the disk of the data folder and at the server's log"})
	}
	return out
}

// Unready lists why the server cannot take in or grant anything; empty while it can.
func Unready(f Facts) []Reason {
	out := Dead(f)
	if f.Full {
		out = append(out, Reason{"space", "there is no room to write: nothing is accepted and nothing is granted; what is known can be read", "free disk space below the data folder, or start with a larger --max-log-bytes; the server goes on by itself"})
	} else if f.Unwritable != "" {
		out = append(out, Reason{"store", "nothing can be written: " + f.Unwritable, "look at the disk of the data folder and at the server's log"})
	}
	if f.Fenced {
		out = append(out, Reason{"lease", "another server leads on this store", "let only one server run on a data folder"})
	}
	if f.SafeMode != "" {
		out = append(out, Reason{"safe-mode", "safe mode, nothing is granted: " + f.SafeMode, "wait until the hosts have sent what they know, or see docs/operating.md"})
	}
	return out
}
