// Package simulate holds the commands that run the planner ahead of a push, over what
// happened, or over schedules of a simulated fleet, and that check what happened:
// steady release simulate, replay, audit and simulate.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/forecast"
	"github.com/steadyfleet/steady/internal/logverify"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
)

type verbs struct{ *command.Env }

// source says where a history comes from: a data folder, a file, or the server.
type source struct{ data, file string }

func (a verbs) fromFlags(cmd *cobra.Command, s *source) {
	f := cmd.Flags()
	f.StringVar(&s.data, "data", "", "take the log from this data folder of a server, running or not; nothing is changed")
	f.StringVar(&s.file, "file", "", "take the log from a file that steady audit export wrote")
	cmd.MarkFlagsMutuallyExclusive("data", "file")
	a.NamesServer(cmd)
}

func (a verbs) history(ctx context.Context, s source) (h *replay.History, err error) {
	tell := a.progress("read %d events")
	defer tell(-1)
	read := func(r io.Reader) (err error) {
		h, err = replay.ReadHistory(r, tell)
		return err
	}
	switch {
	case s.file != "":
		f, err := os.Open(s.file)
		if err != nil {
			return nil, exit.Bad(err)
		}
		defer f.Close()
		return h, exit.Bad(read(f))
	case s.data != "":
		return fromFolder(ctx, s.data)
	}
	err = a.WithClient(func(c *operator.Client) error { return c.History(ctx, read) })
	return h, err
}

// fromFolder reads the log of a data folder, beside a running server or without
// one. It appends nothing and takes no lease.
func fromFolder(ctx context.Context, data string) (_ *replay.History, err error) {
	dir, err := command.StoreFolder(data)
	if err != nil {
		return nil, err
	}
	s, err := embedded.Open(ctx, dir, embedded.Options{Readers: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	pr, pw := io.Pipe()
	library := documents.New(s)
	go func() {
		w, err := replay.NewHistoryWriter(pw, library)
		begin, failed := documents.Begin(ctx, s)
		if err = errors.Join(err, failed); err == nil {
			err = logverify.Export(ctx, w, begin, library)
		}
		if err == nil {
			_, err = store.Replay(ctx, s, begin.Through, func(records []event.Record) error { return w.Write(records) })
		}
		if err == nil {
			err = w.Close()
		}
		pw.CloseWithError(err)
	}()
	defer pr.Close()
	return replay.ReadHistory(pr, nil)
}

// save writes a history to a file that only its owner reads.
func save(path string, h *replay.History) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return exit.Bad(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w, err := replay.NewHistoryWriter(f, h)
	if err != nil {
		return err
	}
	if h.Begins != nil || len(h.Blobs) > 0 {
		blobs := logverify.Documents(h)
		if err := logverify.Export(context.Background(), w, logverify.Begin(h), documents.New(blobs)); err != nil {
			return err
		}
	}
	if err := w.Write(h.Records); err != nil {
		return err
	}
	return w.Close()
}

// When work is shown: not what is over at once, and in a pipe not often.
const (
	showAfter   = time.Second
	redrawEvery = 200 * time.Millisecond
	lineEvery   = 10 * time.Second
)

// progress returns a function that takes how far the work is, from any goroutine.
// What takes longer than a second is shown on stderr: on a terminal as one line
// that is redrawn, elsewhere as a line now and then. A negative number ends it, and
// must come once.
func (a verbs) progress(format string) func(int) {
	begin, end, clear, every := "", "\n", "", lineEvery
	if term.Of(a.Err, a.Getenv).TTY {
		begin, end, clear, every = "\r\x1b[K", "", "\r\x1b[K", redrawEvery
	}
	var at atomic.Int64
	over, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		timer, shown := time.NewTimer(showAfter), false
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
				shown = true
				fmt.Fprintf(a.Err, begin+format+end, at.Load())
				timer.Reset(every)
			case <-over:
				if shown {
					fmt.Fprint(a.Err, clear)
				}
				return
			}
		}
	}()
	return func(n int) {
		if n >= 0 {
			at.Store(int64(n))
			return
		}
		close(over)
		<-gone
	}
}

// assumptions are the flags that say how hosts behave.
type assumptions struct {
	failure, offline    []string
	fail                []string
	activation, prepare string
	latency             string
}

func (s *assumptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&s.failure, "failure-rate", nil, "how likely an activation fails: RATE, HOST=RATE or tag:NAME=RATE, with RATE such as 2% or 0.02; may be repeated")
	f.StringSliceVar(&s.fail, "fail-hosts", nil, "hosts on which it fails for sure")
	f.StringSliceVar(&s.offline, "offline", nil, "who is away all along: RATE, HOST, tag:NAME, HOST=RATE or tag:NAME=RATE; may be repeated")
	defaults := forecast.Default(1)
	f.StringVar(&s.activation, "activation", span(defaults.Activation), "how long an activation takes, and going back: a time or MIN..MAX")
	f.StringVar(&s.prepare, "prepare", span(defaults.Prepare), "how long a host prepares between its grant and its claim (downloads)")
	f.StringVar(&s.latency, "latency", defaults.Latency.String(), "how long a message between a host and the server takes")
}

func (s *assumptions) parse() (a forecast.Assumptions, err error) {
	a = forecast.Assumptions{Failure: []forecast.Rate{}, Fail: command.NonNil(s.fail), Offline: []forecast.Rate{}}
	for _, text := range s.failure {
		r, err := parseRate(text, false)
		if err != nil {
			return a, exit.Badf("--failure-rate %q: %w", text, err)
		}
		a.Failure = append(a.Failure, r)
	}
	for _, text := range s.offline {
		r, err := parseRate(text, true)
		if err != nil {
			return a, exit.Badf("--offline %q: %w", text, err)
		}
		a.Offline = append(a.Offline, r)
	}
	if a.Activation, err = parseRange(s.activation); err != nil {
		return a, exit.Badf("--activation: %w", err)
	}
	if a.Prepare, err = parseRange(s.prepare); err != nil {
		return a, exit.Badf("--prepare: %w", err)
	}
	if a.Latency, err = clock.ParseDuration(s.latency); err != nil {
		return a, exit.Badf("--latency: %w", err)
	}
	return a, nil
}

// parseRate reads RATE, WHO=RATE and, where a name alone means surely, WHO.
func parseRate(text string, surely bool) (r forecast.Rate, err error) {
	who, rate, named := strings.Cut(text, "=")
	if !named {
		if r.Part, err = parsePart(text); err == nil {
			return r, nil
		}
		if !surely {
			return r, fmt.Errorf("%w, HOST=RATE or tag:NAME=RATE", err)
		}
		who, rate = text, "1"
	}
	if r.Part, err = parsePart(rate); err != nil {
		return r, err
	}
	tag, isTag := strings.CutPrefix(who, "tag:")
	if err := fleet.CheckName(tag); err != nil {
		return r, err
	}
	if isTag {
		r.Tag = tag
	} else {
		r.Host = who
	}
	return r, nil
}

func parsePart(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, fmt.Errorf("%q is no rate: expected 0%% to 100%%, or 0 to 1", text)
	}
	return v, nil
}

func parseRange(text string) (r forecast.Range, err error) {
	low, high, two := strings.Cut(text, "..")
	if r.Min, err = clock.ParseDuration(low); err != nil {
		return r, err
	}
	r.Max = r.Min
	if two {
		if r.Max, err = clock.ParseDuration(high); err != nil {
			return r, err
		}
	}
	if r.Max < r.Min {
		return r, fmt.Errorf("%q: the second time is shorter than the first", text)
	}
	return r, nil
}
