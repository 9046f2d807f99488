package drift

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Backoff is how long a push that failed waits until it is tried again: First after one failure,
// half as long again after each more, Most at most. Zero takes the default. It begins anew when
// the node connects, and when somebody asks for the push.
type Backoff struct{ First, Most clock.Duration }

// The default, and the bounds of what a server may be given: First from MinRetry to Most, Most up to
// MaxRetry.
const (
	RetryEvery = 30 * clock.Second // seed 000
	MaxBackoff = 10 * clock.Minute
	MinRetry   = clock.Second
	MaxRetry   = clock.Day
)

// WithDefaults fills in what is zero.
func (b Backoff) WithDefaults() Backoff {
	b.First = cmp.Or(b.First, RetryEvery)
	b.Most = max(b.First, cmp.Or(b.Most, MaxBackoff))
	return b
}

// wait is how long a leg waits after so many failures, a fifth more or less for each leg, so that
// they do not come all at once.
func (b Backoff) wait(of string, failures int) clock.Duration {
	b = b.WithDefaults()
	d := b.First
	for i := 1; i < failures && d < b.Most; i++ {
		d = min(d*3/2, b.Most)
	}
	h := sha256.Sum256(fmt.Appendf(nil, "%s %d", of, failures))
	return d*4/5 + d*2/5*clock.Duration(binary.BigEndian.Uint16(h[:])%1000)/1000
}
