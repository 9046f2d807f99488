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

// viewers are open streams, each on a connection of its own. What they are sent is counted and
// not looked at: a browser does that elsewhere.
type viewers struct {
	frames, bytes atomic.Int64
	shown         []atomic.Uint64 // the record that each shows
	stop          func() error
}

// look opens the streams of so many viewers, and returns once each shows the fleet.
func (b *bench) look(n int) (*viewers, error) {
	ctx, cancel := context.WithCancel(b.ctx)
	v := &viewers{shown: make([]atomic.Uint64, n)}
	var all sync.WaitGroup
	ended, shown := make(chan error, n), make(chan struct{}, n)
	v.stop = func() error {
		cancel()
		all.Wait()
		close(ended)
		for err := range ended {
			if !errors.Is(err, context.Canceled) {
				return fmt.Errorf("a viewer's stream ended: %w", err)
			}
		}
		return nil
	}
	for i := range n {
		c, err := operator.NewClient(b.server.options)
		if err != nil {
			return nil, errors.Join(err, v.stop())
		}
		all.Go(func() {
			defer c.Close()
			began := sync.OnceFunc(func() { shown <- struct{}{} })
			ended <- c.Live(ctx, viewed, func(e operator.LiveEvent) error {
				v.bytes.Add(int64(len(e.Data)))
				switch e.Type {
				case operator.EventTopic:
					v.frames.Add(1)
					began()
				case operator.EventBeat:
					var beat operator.Beat
					err := json.Unmarshal(e.Data, &beat)
					v.shown[i].Store(beat.Seq)
					return err
				}
				return nil
			})
		})
	}
	limit := time.NewTimer(b.patience())
	defer limit.Stop()
	for range n {
		select {
		case <-shown:
		case <-limit.C:
			return nil, errors.Join(fmt.Errorf("not every viewer was shown the fleet after %s", b.patience()), v.stop())
		case <-b.ctx.Done():
			return nil, errors.Join(context.Cause(b.ctx), v.stop())
		}
	}
	return v, nil
}

// show waits until every viewer shows a record.
func (b *bench) show(v *viewers, seq uint64) error {
	ctx, cancel := context.WithTimeoutCause(b.ctx, time.Minute, errors.New("a viewer did not show the end of a change within a minute"))
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for i := range v.shown {
		for v.shown[i].Load() < seq {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// viewed measures one more change while viewers look.
func (b *bench) viewed() error {
	if b.o.Viewers == 0 {
		return nil
	}
	c, err := b.fleet.release(false)
	if err != nil {
		return err
	}
	if err := b.compared(); err != nil {
		return err
	}
	v, err := b.look(b.o.Viewers)
	if err != nil {
		return err
	}
	frames, bytes := v.frames.Load(), v.bytes.Load()
	m, err := b.measure(c)
	var s operator.Status
	if err == nil {
		s, err = b.server.op.Status(b.ctx)
	}
	ended := time.Now()
	if err == nil {
		err = b.show(v, s.Seq)
	}
	late := time.Since(ended).Seconds()
	frames, bytes = v.frames.Load()-frames, v.bytes.Load()-bytes
	if err := errors.Join(err, v.stop()); err != nil {
		return err
	}
	r := b.report.Viewed
	if r == nil {
		r = &Viewed{Viewers: b.o.Viewers}
		b.report.Viewed = r
	}
	r.Rounds = append(r.Rounds, m)
	rounds := float64(b.o.Rounds) // for the mean of all
	per := float64(b.o.Viewers) * (m.Seconds + late) * rounds
	r.ShownSeconds += late / rounds
	r.Frames += float64(frames) / per
	r.Bytes += float64(bytes) / per
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
