package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// FrameContentType is that of bodies made of frames.
const FrameContentType = "application/vnd.steady.frames"

// FrameType says what a frame of a stream carries.
type FrameType byte

// The types. An empty stdout, stderr or stdin frame only keeps the stream open.
const (
	FrameStdout FrameType = 1 // from the host
	FrameStderr FrameType = 2 // from the host
	FrameStdin  FrameType = 3 // to the host
	FrameResize FrameType = 4 // to the host: Resize as JSON
	FrameExit   FrameType = 5 // from the host, the last one: Exit as JSON
	FrameClose  FrameType = 6 // to the host: no more stdin; empty
	FrameStart  FrameType = 7 // from an operator to the server, the first one of an exec: StreamArgs as JSON
)

// Bounds of a stream.
const (
	MaxFrame        = 32 << 10 // bytes of one frame's payload
	StreamAttach    = 15 * clock.Second
	StreamKeepAlive = 30 * clock.Second // between two frames of an agent
	StreamSilence   = 4 * StreamKeepAlive
	maxExitError    = 4 << 10
)

const frameHeader = 5 // type and length, big-endian

// MaxFrameSize bounds a frame with its header, in bytes.
const MaxFrameSize = frameHeader + MaxFrame

// Frame is one piece of a stream: a byte for its type, four for its length, and
// the payload.
type Frame struct {
	Type FrameType
	Data []byte
}

// Resize is the new size of a terminal.
type Resize struct {
	Rows int `json:"rows"`
	Cols int `json:"cols"`
}

// Exit ends a stream: the code of what ran, or why nothing could run.
type Exit struct {
	Code  int    `json:"code"`
	Error string `json:"error,omitempty"`
	// Last is the number of an output's newest line when it ended: where to go on.
	Last int64 `json:"last,omitempty"`
}

// Framing errors.
var (
	ErrFrameType = errors.New("the stream contains a frame of an unknown type")
	ErrFrameSize = fmt.Errorf("the stream contains a frame of more than %d bytes", MaxFrame)
	ErrFrameBody = errors.New("the stream contains a frame whose content is not of its type")
)

// FromHost reports whether a frame of this type comes from the host.
func (t FrameType) FromHost() bool {
	return t == FrameStdout || t == FrameStderr || t == FrameExit
}

// ToHost reports whether a frame of this type goes to the host.
func (t FrameType) ToHost() bool {
	return t == FrameStdin || t == FrameResize || t == FrameClose
}

// FrameReader reads frames. It is for one goroutine.
type FrameReader struct {
	r    io.Reader
	head [frameHeader]byte
	buf  []byte
}

// NewFrameReader returns a reader of r, which needs no buffer.
func NewFrameReader(r io.Reader) *FrameReader { return &FrameReader{r: r} }

// Next returns the next frame, valid until the following call. The end of the
// stream between two frames is io.EOF, inside one io.ErrUnexpectedEOF.
func (f *FrameReader) Next() (Frame, error) {
	if _, err := io.ReadFull(f.r, f.head[:]); err != nil {
		return Frame{}, err
	}
	t, n := FrameType(f.head[0]), binary.BigEndian.Uint32(f.head[1:])
	if !t.FromHost() && !t.ToHost() && t != FrameStart {
		return Frame{}, ErrFrameType
	}
	if n > MaxFrame {
		return Frame{}, ErrFrameSize
	}
	if cap(f.buf) < int(n) {
		f.buf = make([]byte, max(int(n), 512))
	}
	b := f.buf[:n]
	if _, err := io.ReadFull(f.r, b); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	return Frame{t, b}, nil
}

// FrameWriter writes frames. It is for one goroutine.
type FrameWriter struct {
	w   io.Writer
	buf []byte
}

// NewFrameWriter returns a writer to w, which gets every frame in one call.
func NewFrameWriter(w io.Writer) *FrameWriter { return &FrameWriter{w: w} }

// Write writes one frame of at most MaxFrame bytes.
func (f *FrameWriter) Write(fr Frame) error {
	if len(fr.Data) > MaxFrame {
		return ErrFrameSize
	}
	f.buf = append(f.buf[:0], byte(fr.Type))
	f.buf = binary.BigEndian.AppendUint32(f.buf, uint32(len(fr.Data)))
	f.buf = append(f.buf, fr.Data...)
	_, err := f.w.Write(f.buf)
	return err
}

// WriteData writes data of any length as frames of one type.
func (f *FrameWriter) WriteData(t FrameType, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), MaxFrame)
		if err := f.Write(Frame{t, data[:n]}); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// Exit writes the last frame of a host. A long error is cut.
func (f *FrameWriter) Exit(e Exit) error {
	return f.Write(ExitFrame(e))
}

// ExitFrame encodes an exit. A long error is cut.
func ExitFrame(e Exit) Frame {
	if len(e.Error) > maxExitError {
		cut := maxExitError
		for cut > 0 && !utf8.RuneStart(e.Error[cut]) {
			cut--
		}
		e.Error = e.Error[:cut]
	}
	b, _ := json.Marshal(e) // it always encodes
	return Frame{FrameExit, b}
}

// Resize writes a terminal's new size.
func (f *FrameWriter) Resize(r Resize) error {
	b, _ := json.Marshal(r) // it always encodes
	return f.Write(Frame{FrameResize, b})
}

// Exit reads the content of an exit frame.
func (f Frame) Exit() (e Exit, err error) { return e, f.decode(FrameExit, &e) }

// Start reads the content of a start frame.
func (f Frame) Start() (a StreamArgs, err error) { return a, f.decode(FrameStart, &a) }

// StartFrame encodes the arguments of an exec.
func StartFrame(a StreamArgs) (Frame, error) {
	b, err := json.Marshal(a)
	if err == nil && len(b) > MaxFrame {
		err = ErrFrameSize
	}
	return Frame{FrameStart, b}, err
}

// Resize reads the content of a resize frame; sizes are 1 to 4096.
func (f Frame) Resize() (r Resize, err error) {
	err = f.decode(FrameResize, &r)
	if err == nil && (r.Rows < 1 || r.Rows > 4096 || r.Cols < 1 || r.Cols > 4096) {
		err = ErrFrameBody
	}
	return r, err
}

func (f Frame) decode(t FrameType, v any) error {
	if f.Type != t {
		return ErrFrameType
	}
	if err := Decode(f.Data, v); err != nil {
		return fmt.Errorf("%w: %w", ErrFrameBody, err)
	}
	return nil
}
