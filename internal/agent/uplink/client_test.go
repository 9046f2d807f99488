package uplink

import (
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/wire"
)

// The time for a body must grow with it: a product of bytes and nanoseconds
// that overflows would cut large blobs off on slow links, for ever.
func TestCopyTimeoutGrowsWithTheBody(t *testing.T) {
	last := time.Duration(0)
	for n := int64(1); n <= wire.MaxBlob; n *= 2 {
		d := copyTimeout(n)
		if d < requestTimeout || d < last {
			t.Errorf("%d bytes get %s, half of them %s", n, d, last)
		}
		last = d
	}
	if last < time.Hour || last > 2*time.Hour {
		t.Errorf("the largest blob gets %s", last)
	}
}
