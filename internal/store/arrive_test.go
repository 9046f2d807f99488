package store_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/store"
)

// testBlobsThatArrive: what is torn off goes on from what arrived, also by another handle; what
// is not the digest is refused and gone, and what nobody goes on with is dropped.
func testBlobsThatArrive(t *testing.T, s *suite) {
	st := s.open()
	body := bytes.Repeat([]byte("0123456789"), 30_000)
	d, size := digest.Of(body), int64(len(body))
	arrived := func(st store.Store, want int64) {
		t.Helper()
		n, err := st.Arrived(t.Context(), d)
		s.must(err)
		s.equal("arrived", n, want)
	}
	torn := errors.New("torn off")
	err := st.ReceiveBlob(t.Context(), d, size, 0, io.MultiReader(bytes.NewReader(body[:70_000]), iotest.ErrReader(torn)))
	s.wantErr(err, torn)
	arrived(st, 70_000)
	s.wantErr(st.ReceiveBlob(t.Context(), d, size, 10, bytes.NewReader(body[10:])), store.ErrInvalid)
	arrived(st, 70_000)
	s.wantErr(st.ReceiveBlob(t.Context(), d, size, 70_000, bytes.NewReader(body[70_000:80_000])), io.ErrUnexpectedEOF)
	has, err := st.HasBlob(t.Context(), d)
	s.must(err)
	s.equal("has", has, false)
	s.must(st.Close())

	st = s.open()
	arrived(st, 80_000)
	s.must(st.ReceiveBlob(t.Context(), d, size, 80_000, bytes.NewReader(body[80_000:])))
	got, err := st.Blob(t.Context(), d)
	s.must(err)
	s.equal("whole", bytes.Equal(got, body), true)
	arrived(st, 0)
	touched, ok, err := st.TouchBlob(t.Context(), d)
	s.must(err)
	s.equal("touched", [2]any{touched, ok}, [2]any{size, true})
	f, n, err := st.OpenBlob(t.Context(), d)
	s.must(err)
	s.equal("size", n, size)
	_, err = f.Seek(299_990, io.SeekStart)
	s.must(err)
	rest, err := io.ReadAll(f)
	s.must(errors.Join(err, f.Close()))
	s.equal("the end", string(rest), "0123456789")

	other := digest.Of([]byte("other"))
	s.wantErr(st.ReceiveBlob(t.Context(), other, 5, 0, bytes.NewReader([]byte("0ther"))), store.ErrInvalid)
	s.wantErr(st.ReceiveBlob(t.Context(), other, 5, 0, bytes.NewReader([]byte("other and more"))), store.ErrInvalid)
	if _, ok, err := st.TouchBlob(t.Context(), other); ok || err != nil {
		t.Errorf("what was refused is there: %t, %v", ok, err)
	}
	if _, _, err := st.OpenBlob(t.Context(), other); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("opened what is not there: %v", err)
	}
	s.wantErr(st.ReceiveBlob(t.Context(), other, 5, 0, bytes.NewReader([]byte("ot"))), io.ErrUnexpectedEOF)
	s.must(st.DropArrived(t.Context(), clock.FromTime(time.Now().Add(-time.Hour))))
	left, err := st.Arrived(t.Context(), other)
	s.must(err)
	s.equal("kept", left, int64(2))
	s.must(st.DropArrived(t.Context(), clock.FromTime(time.Now().Add(time.Minute))))
	left, err = st.Arrived(t.Context(), other)
	s.must(err)
	s.equal("dropped", left, int64(0))
}
