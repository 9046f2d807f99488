package fetch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/warning"
)

// Release is what was taken in.
type Release struct {
	Version uint64
	Ref     string
	Same    bool // it was accepted before, to its last byte
}

// Intake is the server.
type Intake interface {
	// Leads returns why the server must not look: another one replaced it, or
	// the store does not say.
	Leads(ctx context.Context) error
	// AcceptRelease verifies and accepts the release folder dir. A RefusedError says
	// that it does not verify; any other error that the server could not, now.
	AcceptRelease(ctx context.Context, dir, source string) (Release, error)
	// ReportSource has what one look showed recorded, as far as it is news.
	ReportSource(ctx context.Context, r warning.SourceReport) error
	// Now is the server's instant.
	Now() clock.Instant
}

// RefusedError is a release that does not verify.
type RefusedError struct {
	Check  string
	Detail string
}

func (e *RefusedError) Error() string { return e.Check + ": " + e.Detail }

// WatchConfig says what is watched.
type WatchConfig struct {
	Sources []Source
	// Every is how long to wait between two looks, 60 s by default, 1 s at least;
	// the wait is up to a tenth longer, so that many servers do not ask at once.
	Every time.Duration
	// Gap is the least time between two looks, however many nudges come; 5 s by
	// default.
	Gap time.Duration
	// DataDir gets a folder per fetch, named after Prefix.
	DataDir, Prefix string
	Log             *slog.Logger
}

// Bounds of waiting.
const (
	DefaultEvery = time.Minute
	minEvery     = time.Second
	defaultGap   = 5 * time.Second
	soon         = 2 * time.Second // after somebody was writing
	mostUnquiet  = 5               // looks that may find somebody writing, before it is said
	mostWait     = 30 * time.Minute
	mostDetail   = 1000 // bytes of an error
)

// Watch looks at sources while Run runs.
type Watch struct {
	conf    WatchConfig
	pollers []*poller
}

// NewWatch returns a watch. Nothing is looked at yet.
func NewWatch(conf WatchConfig) *Watch {
	conf.Every = max(cmp.Or(conf.Every, DefaultEvery), minEvery)
	conf.Gap = cmp.Or(conf.Gap, defaultGap)
	w := &Watch{conf: conf}
	for _, f := range conf.Sources {
		w.pollers = append(w.pollers, &poller{conf: &w.conf, source: f, nudged: make(chan struct{}, 1), status: Status{Name: f.Name()}})
	}
	return w
}

// Run looks at every source at once, then at intervals, until ctx ends.
func (w *Watch) Run(ctx context.Context, to Intake) {
	var all sync.WaitGroup
	for _, p := range w.pollers {
		all.Go(func() { p.run(ctx, to) })
	}
	all.Wait()
}

// CheckNow asks for a look at every source soon. Many nudges are one.
func (w *Watch) CheckNow() {
	for _, p := range w.pollers {
		select {
		case p.nudged <- struct{}{}:
		default:
		}
	}
}

// poller looks at one source.
type poller struct {
	conf   *WatchConfig
	source Source
	nudged chan struct{}

	last     string // validator of what was taken in or refused
	refused  *RefusedError
	refusals int // in a row
	retryAt  time.Time
	unquiet  int // looks in a row that found somebody writing

	mu     sync.Mutex
	status Status
}

func (p *poller) run(ctx context.Context, to Intake) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	nudged := p.nudged
	var before time.Time
	for {
		select {
		case <-timer.C:
		case <-nudged:
			// Wait out the gap without listening: more nudges mean the same look.
			nudged = nil
			timer.Reset(max(0, time.Until(before.Add(p.conf.Gap))))
			continue
		case <-ctx.Done():
			return
		}
		wait := p.look(ctx, to)
		before, nudged = time.Now(), p.nudged
		timer.Reset(wait)
	}
}

// look fetches once and returns how long to wait for the next time.
func (p *poller) look(ctx context.Context, to Intake) time.Duration {
	every := p.conf.Every + rand.N(p.conf.Every/10+1)
	if err := to.Leads(ctx); err != nil {
		if ctx.Err() == nil {
			p.note(to.Now(), outcomeFailed, err)
		}
		return every
	}
	dir, err := os.MkdirTemp(p.conf.DataDir, p.conf.Prefix)
	if err != nil {
		p.note(to.Now(), outcomeFailed, err)
		return every
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			p.conf.Log.Warn("what was fetched was left behind", "source", p.source.Name(), "err", err)
		}
	}()
	last := p.last
	if p.refused != nil && !time.Now().Before(p.retryAt) {
		last = "" // the server may know more by now: look at the same thing again
	}
	validator, changed, err := p.source.Fetch(ctx, dir, last)
	if ctx.Err() != nil {
		return every
	}
	report := warning.SourceReport{Source: p.source.Name()}
	switch cause := failureCause(err); {
	case err == nil:
		p.unquiet = 0
	case cause == Unsettled && p.unquiet < mostUnquiet:
		p.unquiet++
		return min(soon, every)
	case cause == Content:
		p.last = ""
		p.refuse(&report, &RefusedError{Check: "Malformed", Detail: short(err)}, to.Now())
		return max(every, p.report(ctx, to, report, outcomeRefused, err))
	default:
		report.Unfetched = &warning.SourceTrouble{Cause: cause, Detail: short(err), At: to.Now()}
		p.report(ctx, to, report, outcomeFailed, err)
		return every
	}
	if changed {
		return max(every, p.take(ctx, to, report, dir, validator))
	}
	p.last = validator
	if p.refused != nil {
		report.Refused = p.trouble(to.Now())
		p.report(ctx, to, report, outcomeRefused, p.refused)
		return every
	}
	report.Verified = true
	p.report(ctx, to, report, outcomeSame, nil)
	return every
}

// take hands what was fetched in, and returns how long to wait at least.
func (p *poller) take(ctx context.Context, to Intake, report warning.SourceReport, dir, validator string) time.Duration {
	release, err := to.AcceptRelease(ctx, dir, p.source.Name())
	refused, ok := errors.AsType[*RefusedError](err)
	switch {
	case err == nil:
		p.last, p.refused, p.refusals = validator, nil, 0
		report.Verified = true
		outcome := p.accepted(release)
		return p.report(ctx, to, report, outcome, nil)
	case ok:
		p.last = validator
		p.refuse(&report, refused, to.Now())
	default:
		p.note(to.Now(), outcomeFailed, err) // ours to mend; the source did nothing wrong
		return 0
	}
	return p.report(ctx, to, report, outcomeRefused, err)
}

// refuse remembers why what is there is not accepted. The same thing is looked at
// again later and later: only news at the server can change the verdict.
func (p *poller) refuse(report *warning.SourceReport, why *RefusedError, now clock.Instant) {
	p.refused = &RefusedError{Check: why.Check, Detail: cut(why.Detail)}
	p.refusals++
	wait := min(mostWait, p.conf.Every<<min(p.refusals, 20))
	p.retryAt = time.Now().Add(max(wait, p.conf.Every))
	report.Refused = p.trouble(now)
}

func (p *poller) trouble(now clock.Instant) *warning.SourceTrouble {
	return &warning.SourceTrouble{Cause: p.refused.Check, Detail: p.refused.Detail, At: now}
}

// report records what is news, and returns how long to wait at least: what cannot
// be a release is fetched whole each time, so it is asked for less often.
func (p *poller) report(ctx context.Context, to Intake, r warning.SourceReport, outcome string, err error) time.Duration {
	p.note(to.Now(), outcome, err)
	if failed := to.ReportSource(ctx, r); failed != nil && ctx.Err() == nil {
		p.conf.Log.Warn("what a release source showed was not recorded", "source", r.Source, "err", failed)
	}
	if r.Refused != nil && p.last == "" {
		return time.Until(p.retryAt)
	}
	return 0
}

// failureCause reads the cause of a failed fetch.
func failureCause(err error) string {
	var c interface{ Cause() string }
	if errors.As(err, &c) {
		return c.Cause()
	}
	return "failed"
}

func short(err error) string { return cut(err.Error()) }

func cut(s string) string {
	if len(s) > mostDetail {
		s = s[:mostDetail] + " ..."
	}
	return strings.ToValidUTF8(s, "?")
}
