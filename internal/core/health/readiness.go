package health

import "github.com/steadyfleet/steady/internal/core/clock"

// ServerFacts are what a server observes of itself.
type ServerFacts struct {
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
	// SetBack says why everything is refused since the log lacks what was acknowledged, or
	// is empty; SetBackNext what to do about it.
	SetBack, SetBackNext string
	// Busy is how long the reducer has been in its present round.
	Busy clock.Duration
}

// Stuck is how long a round of the reducer takes at most in a server that is well.
const Stuck = 30 * clock.Second

// ServerProblem is one thing that is wrong.
type ServerProblem struct {
	Check   string `json:"check"`
	Message string `json:"message"`
	Next    string `json:"next"`
}

// Liveness lists why the process should be started again; empty while it is alive. A
// full disk is no reason: another process would find it just as full.
func Liveness(f ServerFacts) []ServerProblem {
	out := []ServerProblem{}
	if f.Stopping {
		out = append(out, ServerProblem{"running", "the server is stopping", "wait until it has started again"})
	}
	if f.Broken != "" {
		out = append(out, ServerProblem{"store", f.Broken, "check the disk of the data folder, then start the server again; a damaged log is restored from a backup"})
	}
	if f.Busy > Stuck {
		out = append(out, ServerProblem{"reducer", "the server has been busy with one step for " + f.Busy.String(), "check the disk of the data folder and the server's log"})
	}
	return out
}

// Readiness lists why the server cannot take in or grant anything; empty while it can.
func Readiness(f ServerFacts) []ServerProblem {
	out := Liveness(f)
	if f.Full {
		out = append(out, ServerProblem{"space", "there is no room to write: nothing is accepted and nothing is granted; what is known can be read", "free disk space below the data folder, or start with a larger --max-log-bytes; the server goes on by itself"})
	} else if f.Unwritable != "" {
		out = append(out, ServerProblem{"store", "nothing can be written: " + f.Unwritable, "check the disk of the data folder and the server's log"})
	}
	if f.Fenced {
		out = append(out, ServerProblem{"lease", "another server leads on this store", "let only one server run on a data folder"})
	}
	if f.SetBack != "" {
		out = append(out, ServerProblem{"set-back", "everything is refused: " + f.SetBack, f.SetBackNext})
	}
	if f.SafeMode != "" {
		out = append(out, ServerProblem{"safe-mode", "safe mode, nothing is granted: " + f.SafeMode, "wait until the hosts have sent what they know, or see docs/operating.md"})
	}
	return out
}
