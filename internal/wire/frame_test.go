package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

func TestFramesReadBackUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []wire.Frame
		var b bytes.Buffer
		w := wire.NewFrameWriter(&b)
		for range rapid.IntRange(0, 8).Draw(t, "frames") {
			f := wire.Frame{Type: wire.FrameType(rapid.IntRange(1, 7).Draw(t, "type")), Data: rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "data")}
			testkit.Must(t, w.Write(f))
			want = append(want, f)
		}
		long := rapid.SliceOfN(rapid.Byte(), wire.MaxFrame, 3*wire.MaxFrame).Draw(t, "long")
		testkit.Must(t, w.WriteData(wire.FrameStdout, long))
		r := wire.NewFrameReader(iotest.HalfReader(&b))
		for i, f := range want {
			got, err := r.Next()
			if err != nil || got.Type != f.Type || !bytes.Equal(got.Data, f.Data) {
				t.Fatalf("frame %d is %v, %v, expected %v", i, got, err, f)
			}
		}
		var back []byte
		for {
			f, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil || f.Type != wire.FrameStdout {
				t.Fatal(f.Type, err)
			}
			back = append(back, f.Data...)
		}
		if !bytes.Equal(back, long) {
			t.Fatal("long data came back otherwise")
		}
	})
}

func TestFrameBounds(t *testing.T) {
	if err := wire.NewFrameWriter(io.Discard).Write(wire.Frame{Type: wire.FrameStdin, Data: make([]byte, wire.MaxFrame+1)}); !errors.Is(err, wire.ErrFrameSize) {
		t.Errorf("a long frame was written: %v", err)
	}
	head := func(t byte, n uint32, data ...byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{t}, n), data...)
	}
	for what, c := range map[string]struct {
		raw  []byte
		want error
	}{
		"nothing":         {nil, io.EOF},
		"half a header":   {[]byte{1, 0, 0}, io.ErrUnexpectedEOF},
		"no payload":      {head(1, 4), io.ErrUnexpectedEOF},
		"half a payload":  {head(1, 4, 'a', 'b'), io.ErrUnexpectedEOF},
		"type 0":          {head(0, 0), wire.ErrFrameType},
		"an unknown type": {head(8, 0), wire.ErrFrameType},
		"a long payload":  {head(2, wire.MaxFrame+1), wire.ErrFrameSize},
		"a lie of 4 GiB":  {head(2, 1<<32-1), wire.ErrFrameSize},
	} {
		if _, err := wire.NewFrameReader(bytes.NewReader(c.raw)).Next(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, expected %v", what, err, c.want)
		}
	}
}

func TestFrameContents(t *testing.T) {
	var b bytes.Buffer
	w := wire.NewFrameWriter(&b)
	words := strings.Repeat("ü", 4<<10)
	testkit.Must(t, errors.Join(w.Exit(wire.Exit{Code: 3, Error: words}), w.Resize(wire.Resize{Rows: 24, Cols: 80}), w.Resize(wire.Resize{Rows: 0, Cols: 80})))
	r := wire.NewFrameReader(&b)
	f, _ := r.Next()
	exit, err := f.Exit()
	if err != nil || exit.Code != 3 || !strings.HasPrefix(words, exit.Error) || !utf8.ValidString(exit.Error) || len(exit.Error) < 4<<10-4 {
		t.Errorf("exit is %d with %d bytes of error, %v", exit.Code, len(exit.Error), err)
	}
	if _, err := f.Resize(); !errors.Is(err, wire.ErrFrameType) {
		t.Errorf("an exit is a resize: %v", err)
	}
	f, _ = r.Next()
	if size, err := f.Resize(); err != nil || size != (wire.Resize{Rows: 24, Cols: 80}) {
		t.Errorf("resize is %v, %v", size, err)
	}
	f, _ = r.Next()
	if _, err := f.Resize(); !errors.Is(err, wire.ErrFrameBody) {
		t.Errorf("a terminal without rows: %v", err)
	}
	if _, err := (wire.Frame{Type: wire.FrameExit, Data: []byte("{")}).Exit(); !errors.Is(err, wire.ErrFrameBody) {
		t.Errorf("half an exit: %v", err)
	}
}

// FuzzFrames reads arbitrary bytes: what is read is bounded and, written again,
// the same bytes; the rest is refused, never kept.
func FuzzFrames(f *testing.F) {
	var b bytes.Buffer
	w := wire.NewFrameWriter(&b)
	_ = w.Write(wire.Frame{Type: wire.FrameStdout, Data: []byte("hello")})
	_ = w.Exit(wire.Exit{Code: 1, Error: "x"})
	f.Add(b.Bytes())
	f.Add([]byte{1, 0, 0, 0, 0, 6, 0, 0, 0, 0})
	f.Add([]byte{2, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := wire.NewFrameReader(bytes.NewReader(raw))
		var again bytes.Buffer
		w := wire.NewFrameWriter(&again)
		for {
			fr, err := r.Next()
			if err != nil {
				if err == io.EOF && again.Len() != len(raw) {
					t.Fatalf("%d of %d bytes were frames", again.Len(), len(raw))
				}
				break
			}
			if len(fr.Data) > wire.MaxFrame || fr.Type.FromHost() && fr.Type.ToHost() {
				t.Fatalf("frame of type %d with %d bytes", fr.Type, len(fr.Data))
			}
			_, _ = fr.Exit()
			_, _ = fr.Resize()
			_, _ = fr.Start()
			testkit.Must(t, w.Write(fr))
		}
		if !bytes.HasPrefix(raw, again.Bytes()) {
			t.Fatal("frames read otherwise than written")
		}
	})
}
