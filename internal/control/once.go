package control

import (
	"strings"
	"sync"
)

// once tells what was refused for the first time, so that what callers repeat does
// not fill the log. It forgets all when it holds too much. The zero value is ready.
type once struct {
	mu sync.Mutex
	m  map[string]struct{}
}

const maxOnce = 4096

// first reports whether a key is new.
func (o *once) first(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, seen := o.m[key]; seen {
		return false
	}
	if o.m == nil || len(o.m) >= maxOnce {
		o.m = map[string]struct{}{}
	}
	o.m[key] = struct{}{}
	return true
}

// forget makes everything with a prefix news again.
func (o *once) forget(prefix string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k := range o.m {
		if strings.HasPrefix(k, prefix) {
			delete(o.m, k)
		}
	}
}

// keyed is a lock per key.
type keyed struct {
	mu sync.Mutex
	m  map[string]*keyedLock
}

type keyedLock struct {
	sync.Mutex
	users int
}

// lock locks a key and returns what unlocks it.
func (k *keyed) lock(key string) func() {
	k.mu.Lock()
	if k.m == nil {
		k.m = map[string]*keyedLock{}
	}
	l := k.m[key]
	if l == nil {
		l = &keyedLock{}
		k.m[key] = l
	}
	l.users++
	k.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.m, key)
		}
	}
}
