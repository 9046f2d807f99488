package operations

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// One viewer must not use up the server's memory with streams.
func TestStreamsAreBounded(t *testing.T) {
	h := &Handler{streams: make(chan struct{}, 1)}
	h.streams <- struct{}{}
	w := httptest.NewRecorder()
	h.stream(w, httptest.NewRequest(http.MethodGet, "/?after=1", nil))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("one too many is answered %d", w.Code)
	}
	if len(h.streams) != 1 {
		t.Errorf("%d places are taken", len(h.streams))
	}
}
