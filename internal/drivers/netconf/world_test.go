package netconf

import (
	"maps"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
)

// world is a netconfd behind an sshd, of this test alone.
type world struct {
	*testkit.Netconf
	t *testing.T
}

func newWorld(t *testing.T, flags ...string) *world {
	t.Helper()
	return &world{testkit.StartNetconf(t, flags...), t}
}

func (w *world) options(more map[string]string) map[string]string {
	o := w.Options()
	maps.Copy(o, more)
	return o
}

func (w *world) open(more map[string]string) *Driver {
	w.t.Helper()
	d, _, err := Open(w.options(more))
	testkit.Must(w.t, err)
	own := d.(*Driver)
	own.login.timeout = 5 * time.Second // netconfd forgets who connects while it starts
	w.t.Cleanup(own.Close)
	return own
}
