package oracle

import (
	"cmp"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// Sitting is what a session has on a host: an entry that it owns in the managed layer.
type Sitting struct {
	Session string
	Until   clock.Instant // notAfter; zero is no end
}

// Earlier is a name under which a machine was enrolled before.
type Earlier struct {
	Name        string
	Incarnation uint64
}

// sits reads what is set in a host's managed layer and removed from it.
func (h *Host) sits(ev event.Event) {
	switch ev := ev.(type) {
	case event.ManagedSet:
		delete(h.Sessions, ev.Kind+"/"+ev.Name)
		if session, owns := strings.CutPrefix(string(ev.Owner), "session/"); owns {
			if h.Sessions == nil {
				h.Sessions = map[string]Sitting{}
			}
			h.Sessions[ev.Kind+"/"+ev.Name] = Sitting{session, ev.NotAfter}
		}
	case event.ManagedRemoved:
		delete(h.Sessions, ev.Kind+"/"+ev.Name)
	}
}

// keyed has a host be among those of its key, and no more among those of the one that it had.
func (f *Facts) keyed(h *Host, was []byte) {
	left := slices.DeleteFunc(f.keys[string(was)], func(o *Host) bool { return o == h })
	if f.keys[string(was)] = left; len(left) == 0 {
		delete(f.keys, string(was))
	}
	if len(h.Key) > 0 {
		f.keys[string(h.Key)] = append(f.keys[string(h.Key)], h)
	}
}

// earlier is what a machine that enrols as a host was called: who enrolled last with its key under
// another name and reported with it, else what that name was called before.
func (f *Facts) earlier(h *Host, key []byte) []Earlier {
	var was *Host
	for _, o := range f.keys[string(key)] { // order-free: the newest, the last by name of those of one instant
		if o != h && (was == nil || cmp.Or(cmp.Compare(o.Issued, was.Issued), cmp.Compare(o.Name, was.Name)) > 0) {
			was = o
		}
	}
	switch {
	case was != nil && was.Seq > 0:
		out := append([]Earlier{{was.Name, was.Incarnation}}, was.Was...)
		return out[:min(len(out), 8)]
	case h.Seq > 0:
		return h.Was
	}
	return nil
}

// occupied reports whether a session has something on the machine of a host: under its name, or
// under an earlier one that no other machine took since.
func (f *Facts) occupied(q *Request) bool {
	for _, was := range append([]Earlier{{q.Host.Name, q.Host.Incarnation}}, q.Host.Was...) {
		o := f.hosts[was.Name]
		if o == nil || o.Incarnation != was.Incarnation {
			continue
		}
		for _, s := range o.Sessions { // order-free: any one will do
			if s.Until == 0 || s.Until > q.At {
				return true
			}
		}
	}
	return false
}
