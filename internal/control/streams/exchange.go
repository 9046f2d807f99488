package streams

import (
	"net/http"
	"time"

	"github.com/steadyfleet/steady/internal/wire"
)

// writeTimeout is how long the other side may leave one frame untaken: it may
// hold its output for a while.
const writeTimeout = 2 * time.Minute

// Conn is one exchange.
type Exchange struct {
	w  http.ResponseWriter
	r  *http.Request
	rc *http.ResponseController
}

// NewExchange takes an exchange over; nothing was answered yet.
func NewExchange(w http.ResponseWriter, r *http.Request) *Exchange {
	return &Exchange{w, r, http.NewResponseController(w)}
}

// Begin answers that the stream is open, and lifts the exchange's deadlines.
func (c *Exchange) Begin() error {
	if err := c.rc.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if err := c.rc.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", wire.FrameContentType)
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusOK)
	return c.rc.Flush()
}

// End is the exchange as one end of a stream.
func (c *Exchange) End() End {
	in := wire.NewFrameReader(c.r.Body)
	e := c.WriteEnd()
	e.Read = in.Next
	return e
}

// WriteEnd is an end that reads nothing.
func (c *Exchange) WriteEnd() End {
	out := wire.NewFrameWriter(c.w)
	return End{
		Write: func(f wire.Frame) error {
			// On HTTP/2 a deadline that passes ends the exchange even while nothing is
			// written, so it is lifted in between.
			if err := c.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
				return err
			}
			if err := out.Write(f); err != nil {
				return err
			}
			if err := c.rc.Flush(); err != nil {
				return err
			}
			return c.rc.SetWriteDeadline(time.Time{})
		},
		Close: func() { _ = c.r.Body.Close() }, // what comes after the end is of no use
	}
}
