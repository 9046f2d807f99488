package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
)

// forecastPoll is how often a forecast is asked how far it is.
const forecastPoll = 200 * time.Millisecond

// Forecast is changes as Plain ones, while the server has a worker play the fleet ahead, one
// forecast after the other.
type Forecast struct {
	Changes
	// Ratio is how much longer the median change takes than a Plain one.
	Ratio float64 `json:"secondsRatio"`
	// Begun is how many forecasts began in all changes, and Played how many of their runs
	// had ended with them.
	Begun  int `json:"begun"`
	Played int `json:"runs"`
}

// forecast measures one more change while forecasts are played.
func (b *bench) forecast() error {
	if !b.o.Forecasts {
		return nil
	}
	c, err := b.next(false)
	if err != nil {
		return err
	}
	r := b.report.Forecast
	if r == nil {
		r = &Forecast{}
		b.report.Forecast = r
	}
	stop, ended := make(chan struct{}), make(chan error, 1)
	begun := make(chan struct{})
	go func() { ended <- b.ahead(r, begun, stop) }()
	select {
	case <-begun:
	case err := <-ended:
		return cmp.Or(err, errors.New("no forecast began"))
	}
	m, err := b.measure(c)
	close(stop)
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	r.Rounds = append(r.Rounds, m)
	return nil
}

// ahead asks for one forecast after the other until stop; begun is closed when the first one
// plays. The one that plays then goes on beside what comes next, so it is waited for.
func (b *bench) ahead(r *Forecast, begun, stop chan struct{}) error {
	tick := time.NewTicker(forecastPoll)
	defer tick.Stop()
	began := sync.OnceFunc(func() { close(begun) })
	for {
		r.Begun++
		f, err := b.server.op.Forecast(b.ctx, operator.NewForecast{Seed: uint64(r.Begun)})
		over, counted := stop, 0
		for err == nil && f.State != operator.ForecastDone {
			if f.State == operator.ForecastFailed {
				return fmt.Errorf("a forecast failed: %s", f.Error)
			}
			if f.Runs > 0 { // it has read what it begins with
				began()
			}
			select {
			case <-over:
				over, counted = nil, f.Done
			case <-tick.C:
				f, err = b.server.op.ForecastOf(b.ctx, f.ID)
			case <-b.ctx.Done():
				err = b.ctx.Err()
			}
		}
		switch {
		case err != nil:
			return err
		case over == nil:
			r.Played += counted
			return nil
		}
		began()
		r.Played += f.Runs
		select {
		case <-stop:
			return nil
		default:
		}
	}
}

func (r *Report) forecast(w io.Writer) {
	if f := r.Forecast; f != nil {
		fmt.Fprintf(w, "\nA change during which forecasts are played takes %.2f s, %.2f times a plain one; %d forecasts began, and %d runs ended meanwhile.\n",
			f.Seconds, f.Ratio, f.Begun, f.Played)
	}
}
