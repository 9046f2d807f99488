package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A timeout is what context.WithTimeout gives, asked for Done or not.
func TestTimeoutIsAContext(t *testing.T) {
	type key struct{}
	why := errors.New("the parent ended")
	ends := map[string]struct {
		end   func(c *timeout, parent context.CancelCauseFunc) // nil: its time passes
		err   error
		cause error
	}{
		"time":   {nil, context.DeadlineExceeded, context.DeadlineExceeded},
		"end":    {func(c *timeout, _ context.CancelCauseFunc) { c.end() }, context.Canceled, context.Canceled},
		"parent": {func(_ *timeout, p context.CancelCauseFunc) { p(why) }, context.Canceled, why},
	}
	for name, e := range ends {
		for _, asked := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "kept"))
				defer cancel(nil)
				c := withTimeout(parent, time.Second)
				defer c.end()
				below := context.Context(c)
				if asked {
					var stop context.CancelFunc
					below, stop = context.WithCancel(c)
					defer stop()
				}
				if at, ok := c.Deadline(); !ok || time.Until(at) != time.Second || c.Err() != nil || below.Value(key{}) != "kept" {
					t.Errorf("%s: a new timeout ends at %v (%v) with %v", name, at, ok, c.Err())
				}
				if e.end != nil {
					e.end(c, cancel)
				} else {
					time.Sleep(time.Second)
				}
				synctest.Wait()
				if !errors.Is(below.Err(), e.err) || !errors.Is(context.Cause(below), e.cause) {
					t.Errorf("%s, asked %v: %v because of %v, want %v because of %v", name, asked, below.Err(), context.Cause(below), e.err, e.cause)
				}
				<-c.Done()
			})
		}
	}
	early, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if at, _ := withTimeout(early, time.Hour).Deadline(); time.Until(at) > time.Minute {
		t.Errorf("a timeout below one of a minute ends at %v", at)
	}
}
