package dockerapi

// This file bounds how many of one thing run at once, such as starts or pulls.
// Nobody waits inside: who finds no room is notified when there is.

import (
	"slices"
	"sync"
)

// Pool has a number of places that may change while they are taken.
type Pool struct {
	notify func(ref string)

	mu      sync.Mutex
	size    int
	inside  int
	waiting []string // refused and not told since, first come first
}

// New makes a pool of so many places, at least one. Kick, which may be nil, is
// told of a ref that was refused once there is room; it must not block.
func NewPool(size int, notify func(ref string)) *Pool {
	if notify == nil {
		notify = func(string) {}
	}
	return &Pool{size: max(1, size), notify: notify}
}

// TryEnter takes a place, or remembers ref. Leave gives the place back; only its
// first call counts.
func (p *Pool) TryEnter(ref string) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.room(ref) {
		return func() {}, false
	}
	p.inside++
	p.waiting = slices.DeleteFunc(p.waiting, func(r string) bool { return r == ref })
	var once sync.Once
	return func() { once.Do(p.leave) }, true
}

// Room reports whether there is a place, or remembers ref as TryEnter does.
func (p *Pool) Room(ref string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.room(ref)
}

func (p *Pool) room(ref string) bool {
	if p.inside < p.size {
		return true
	}
	if !slices.Contains(p.waiting, ref) {
		p.waiting = append(p.waiting, ref)
	}
	return false
}

func (p *Pool) leave() {
	p.mu.Lock()
	p.inside--
	p.wake()
}

// wake kicks as many of those that wait as there are free places. Mu is held, and is
// not any more when it returns.
func (p *Pool) wake() {
	n := min(max(0, p.size-p.inside), len(p.waiting))
	next := slices.Clone(p.waiting[:n])
	p.waiting = slices.Delete(p.waiting, 0, n)
	p.mu.Unlock()
	for _, r := range next {
		p.notify(r)
	}
}

// Resize changes the number of places, at least one. Who is inside stays.
func (p *Pool) Resize(size int) {
	p.mu.Lock()
	p.size = max(1, size)
	p.wake()
}
