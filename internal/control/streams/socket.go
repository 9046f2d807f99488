package streams

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/steadyfleet/steady/internal/wire"
)

// Socket is a WebSocket whose messages are frames.
type Socket struct {
	ctx   context.Context
	conn  *websocket.Conn
	first *time.Timer
}

// NewSocket takes a request of this server's own page over, and answers it. The first frame
// must come within so long.
func NewSocket(w http.ResponseWriter, r *http.Request, within time.Duration) (*Socket, error) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, err
	}
	c.SetReadLimit(wire.MaxFrameSize)
	return &Socket{context.WithoutCancel(r.Context()), c, time.AfterFunc(within, func() { _ = c.CloseNow() })}, nil // there is nobody to tell
}

// End is the socket as one end of a stream.
func (s *Socket) End() End { return End{Read: s.read, Write: s.write, Close: s.Close} }

func (s *Socket) read() (wire.Frame, error) {
	_, message, err := s.conn.Read(s.ctx)
	s.first.Stop()
	if err != nil { // also at an EOF: a tab is never done typing while it looks on
		return wire.Frame{}, fmt.Errorf("%w: %v", ErrOperator, err)
	}
	in := bytes.NewReader(message)
	f, err := wire.NewFrameReader(in).Next()
	if err == nil && in.Len() > 0 {
		err = fmt.Errorf("%w: %d bytes follow a frame in its message", wire.ErrFrameSize, in.Len())
	}
	return f, err
}

func (s *Socket) write(f wire.Frame) error {
	var message bytes.Buffer
	if err := wire.NewFrameWriter(&message).Write(f); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageBinary, message.Bytes())
}

// Refuse tells why there is no stream.
func (s *Socket) Refuse(why string) {
	_ = s.write(wire.ExitFrame(wire.Exit{Code: -1, Error: why})) // the caller may be gone
}

// Close ends it, and a Read that waits.
func (s *Socket) Close() {
	s.first.Stop()
	_ = s.conn.Close(websocket.StatusNormalClosure, "") // it may be over
}
