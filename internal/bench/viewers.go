package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/api/operator"
)

// viewed are the topics of a tab with the page of the fleet.
var viewed = []string{"/fleet", "/status", "/rollouts"}

// MaxViewers is the most viewers of a run: as many streams as a server has open.
const MaxViewers = 512

// Viewed is changes as Plain ones, while viewers look at the fleet, its status and its rollouts.
type Viewed struct {
	Changes
	Viewers int `json:"viewers"`
	// Ratio is how much longer the median change takes than a Plain one.
	Ratio float64 `json:"secondsRatio"`
	// ServerPercent is the CPU that the server spends more than in a Plain change, for ten viewers.
	ServerPercent float64 `json:"serverCpuPercentForTenViewers"`
	// ShownSeconds is how much later every viewer shows the end of a change, in the mean.
	ShownSeconds float64 `json:"shownSeconds"`
	// Frames and Bytes are what a viewer is sent in a second of a change.
	Frames float64 `json:"framesPerSecond"`
	Bytes  float64 `json:"bytesPerSecond"`
}

// viewersConfig is what the process of the viewers is told first. It answers once each
// viewer shows the fleet; then it is told the last record of a change, and answers once each
// shows that.
type viewersConfig struct {
	Viewers    int
	URL, Token string
	CA         []byte
}

// shown is what all viewers were sent since the answer before.
type shown struct{ Frames, Bytes int64 }

// viewers are open streams, each on a connection of its own. What they are sent is counted and
// not looked at: a browser does that elsewhere.
type viewers struct {
	frames, bytes atomic.Int64
	first         chan struct{}   // one for each that shows the fleet
	shows         []atomic.Uint64 // the record that each shows
}

// RunViewers is the process of the viewers of a benchmark, for one change.
func RunViewers(ctx context.Context, in io.Reader, out io.Writer) error {
	var cfg viewersConfig
	lines := json.NewDecoder(in)
	if err := lines.Decode(&cfg); err != nil {
		return err
	}
	if err := files(cfg.Viewers); err != nil {
		return err
	}
	v := &viewers{first: make(chan struct{}, cfg.Viewers), shows: make([]atomic.Uint64, cfg.Viewers)}
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	for i := range cfg.Viewers {
		group.Go(func() error { return v.look(ctx, cfg, i) })
	}
	err := v.answer(ctx, lines, json.NewEncoder(out))
	cancel()
	if looked := group.Wait(); !errors.Is(looked, context.Canceled) {
		err = errors.Join(looked, err)
	}
	return err
}

func (v *viewers) look(ctx context.Context, cfg viewersConfig, i int) error {
	c, err := operator.NewClient(operator.Options{URL: cfg.URL, Token: cfg.Token, ServerCA: cfg.CA})
	if err != nil {
		return err
	}
	defer c.Close()
	began := sync.OnceFunc(func() { v.first <- struct{}{} })
	err = c.Live(ctx, viewed, func(e operator.LiveEvent) error {
		v.bytes.Add(int64(len(e.Data)))
		switch e.Type {
		case operator.EventTopic:
			v.frames.Add(1)
			began()
		case operator.EventBeat:
			var beat operator.Beat
			err := json.Unmarshal(e.Data, &beat)
			v.shows[i].Store(beat.Seq)
			return err
		}
		return nil
	})
	return fmt.Errorf("a viewer's stream ended: %w", err)
}

func (v *viewers) answer(ctx context.Context, lines *json.Decoder, out *json.Encoder) error {
	for range v.shows {
		select {
		case <-v.first:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	before := shown{v.frames.Load(), v.bytes.Load()}
	if err := out.Encode(before); err != nil {
		return err
	}
	var seq uint64
	if err := lines.Decode(&seq); err != nil {
		return err
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for i := range v.shows {
		for v.shows[i].Load() < seq {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return out.Encode(shown{v.frames.Load() - before.Frames, v.bytes.Load() - before.Bytes})
}

// viewed measures one more change while viewers look.
func (b *bench) viewed() error {
	if b.o.Viewers == 0 {
		return nil
	}
	c, err := b.next(false)
	if err != nil {
		return err
	}
	o := b.server.options
	h, err := b.help("viewers", viewersConfig{b.o.Viewers, o.URL, o.Token, o.ServerCA})
	if err != nil {
		return err
	}
	defer h.Stop(stopIn)
	unstuck := time.AfterFunc(b.patience()+time.Minute, func() { h.Stop(0) })
	defer unstuck.Stop()
	var sent shown
	if err := h.answer(&sent); err != nil {
		return err
	}
	m, err := b.measure(c)
	if err != nil {
		return err
	}
	s, err := b.server.op.Status(b.ctx)
	if err != nil {
		return err
	}
	ended := time.Now()
	if err := h.tell(s.Seq); err != nil {
		return err
	}
	if err := h.answer(&sent); err != nil {
		return err
	}
	late := time.Since(ended).Seconds()
	r := b.report.Viewed
	if r == nil {
		r = &Viewed{Viewers: b.o.Viewers}
		b.report.Viewed = r
	}
	r.Rounds = append(r.Rounds, m)
	rounds := float64(b.o.Rounds) // for the mean of all
	per := float64(b.o.Viewers) * (m.Seconds + late) * rounds
	r.ShownSeconds += late / rounds
	r.Frames += float64(sent.Frames) / per
	r.Bytes += float64(sent.Bytes) / per
	return nil
}

// compare sets the changes beside those that nobody looked at.
func (v *Viewed) compare(plain *Changes, hosts int) {
	v.medians()
	v.Ratio = v.Seconds / plain.Seconds
	more := (v.ServerMillisPerHost - plain.ServerMillisPerHost) / 1000 * float64(hosts)
	v.ServerPercent = 100 * more / v.Seconds / float64(v.Viewers) * 10
}

func (r *Report) viewed(w io.Writer) {
	if v := r.Viewed; v != nil {
		fmt.Fprintf(w, "\nA change that %d viewers look at takes %.2f s, %.2f times a plain one, and %.2f %% of a core more for ten of them; each is sent %.1f frames and %.1f KiB a second, and shows its end %.2f s later.\n",
			v.Viewers, v.Seconds, v.Ratio, v.ServerPercent, v.Frames, v.Bytes/1024, v.ShownSeconds)
	}
}
