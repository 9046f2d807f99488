package daemon

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/system"
)

// Bounds of what is logged about a server that does not do what it is asked.
const (
	maxCauses  = 16               // that are told apart
	causeAgain = 10 * time.Minute // until one is logged again
)

// outage tells which errors in talking to the server are worth a line: each cause
// once, for as long as it may come back; and when the server answers again.
type outage struct {
	mu       sync.Mutex
	since    time.Time // zero: the server answers
	logged   map[string]time.Time
	reported bool // of this outage, anything was logged
}

// begin takes an error and reports whether to log it.
func (o *outage) begin(cause string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		o.since, o.reported = now, false
	}
	if at, ok := o.logged[cause]; ok && now.Sub(at) < causeAgain {
		return false
	}
	if o.logged == nil || len(o.logged) >= maxCauses {
		o.logged = map[string]time.Time{}
	}
	o.logged[cause], o.reported = now, true
	return true
}

// end notes that the server accepted a request. It returns how long it had not, and
// whether the beginning of that was logged.
func (o *outage) end(now time.Time) (lasted time.Duration, report bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		return 0, false
	}
	lasted, report = now.Sub(o.since), o.reported
	o.since = time.Time{}
	return lasted, report
}

// causeOf names an error without what differs from one try to the next, such as
// ports: the server's status, or the innermost error.
func causeOf(err error) string {
	if status := uplink.StatusOf(err); status != 0 {
		return strconv.Itoa(status)
	}
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return err.Error()
}

// unreachable notes an error in talking to the server, and logs each cause once.
func (a *Agent) unreachable(what string, err error) {
	text := err.Error()
	a.serverError.Store(&text)
	if !a.outage.begin(causeOf(err), time.Now()) {
		return
	}
	detail := system.Scrub(text, 1024)
	switch status := uplink.StatusOf(err); {
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		a.cfg.Log.Warn("the server refuses this host; what runs goes on", "request", what, "error", detail,
			"next", "if the host is to enrol again, stop the agent, move "+a.cfg.StateDir+" away and start it with a new token")
	case status != 0 || errors.Is(err, agent.ErrEventsRefused):
		a.cfg.Log.Warn("the server cannot do what it was asked; trying again", "request", what, "error", detail)
	default:
		a.cfg.Log.Warn("the server does not answer; trying again, and what runs goes on", "request", what, "error", detail)
	}
}

// answered notes that the server accepted a request, and reports whether it had not
// before.
func (a *Agent) answered() bool {
	if a.serverError.Swap(nil) == nil {
		return false
	}
	if lasted, report := a.outage.end(time.Now()); report {
		a.cfg.Log.Info("the server answers again", "after", lasted.Round(time.Second))
	}
	return true
}
