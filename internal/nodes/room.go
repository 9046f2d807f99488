package nodes

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// room has the connections that have not said hello. One that finds it full takes the place of the oldest of the
// address with the most, so that whoever says hello at once gets in beside any number that are silent.
type room struct {
	most, perAddress int

	mu    sync.Mutex
	open  int
	hello time.Duration             // how long those that said hello took lately
	by    map[netip.Addr][]*visitor // the oldest first
}

// visitor is one of them.
type visitor struct {
	from  netip.Addr
	since time.Time
	leave func() // ends its connection
}

// A connection keeps its place beside others of its address for a few times as long as a hello takes lately, within these
// bounds: on a machine that is busy with all nodes at once none would finish otherwise.
const young, old = 250 * time.Millisecond, 2 * time.Second

func newRoom(most int) *room {
	return &room{most: most, perAddress: max(1, most/2), hello: old / 4, by: map[netip.Addr][]*visitor{}}
}

// said notes that a connection said hello, and follows enter.
func (r *room) said(v *visitor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hello = (r.hello + time.Since(v.since)) / 2
	r.remove(v)
}

// of is how many connections of an address have not said hello.
func (r *room) of(from netip.Addr) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.by[from])
}

// enter gives a connection a place; leave ends it when another one takes that. Crowded says that few are free.
func (r *room) enter(from netip.Addr, leave func()) (v *visitor, crowded, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, mine := time.Now(), r.by[from]
	if len(mine) >= r.perAddress || r.open >= r.most {
		if len(mine) < r.perAddress {
			mine = r.largest()
		}
		oldest := mine[0]
		if len(mine) <= len(r.by[from])+1 && now.Sub(oldest.since) < min(max(young, 4*r.hello), old) {
			return nil, true, false
		}
		r.remove(oldest)
		oldest.leave()
	}
	v = &visitor{from, now, leave}
	r.by[from] = append(r.by[from], v)
	r.open++
	return v, r.open > r.most/2 || len(r.by[from]) > r.perAddress/2, true
}

// largest are the connections of the address with the most.
func (r *room) largest() (most []*visitor) {
	for _, list := range r.by { // order-free: of equal ones any does
		if len(list) > len(most) {
			most = list
		}
	}
	return most
}

// exit follows enter once, and does nothing where the place was taken.
func (r *room) exit(v *visitor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(v)
}

func (r *room) remove(v *visitor) {
	list := r.by[v.from]
	i := slices.Index(list, v)
	if i < 0 {
		return
	}
	r.open--
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(r.by, v.from)
	} else {
		r.by[v.from] = list
	}
}
