package cli

import (
	"github.com/spf13/pflag"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/control/sessions"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/reconcile"
)

// sessionOptions are how often sessions attempt what fails, and how long they wait in between.
type sessionOptions struct {
	attempts    int
	first, most string
}

// Bounds of the waits.
const (
	minSessionRetry = 100 * clock.Millisecond
	maxSessionRetry = clock.Hour
)

func (o *sessionOptions) flags(f *pflag.FlagSet) {
	d := sessions.DefaultRetry
	f.IntVar(&o.attempts, "session-attempts", d.Max, "how often sessions attempt what fails, 1 to 100: what a pod needs of its host, and the job of a phase whose file has no retries")
	f.StringVar(&o.first, "session-retry", clock.FromStd(d.Base).String(), "how long they wait after the first failure, 100ms to 1h; twice as long after each more")
	f.StringVar(&o.most, "session-retry-max", clock.FromStd(d.Cap).String(), "how long they wait at most, --session-retry to 1h")
}

func (o *sessionOptions) policy() (r reconcile.RetryPolicy, err error) {
	if o.attempts < 1 || o.attempts > sessions.MaxAttempts {
		return r, exit.Badf("--session-attempts %d: expected 1 to %d", o.attempts, sessions.MaxAttempts)
	}
	first, err := clock.ParseDuration(o.first)
	if err != nil || first < minSessionRetry || first > maxSessionRetry {
		return r, exit.Badf("--session-retry %s: expected a duration from %s to %s", o.first, minSessionRetry, maxSessionRetry)
	}
	most, err := clock.ParseDuration(o.most)
	if err != nil || most < first || most > maxSessionRetry {
		return r, exit.Badf("--session-retry-max %s: expected a duration from --session-retry, %s, to %s", o.most, first, maxSessionRetry)
	}
	return reconcile.RetryPolicy{Max: o.attempts, Base: first.Std(), Cap: most.Std()}, nil
}
