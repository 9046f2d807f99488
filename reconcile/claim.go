package reconcile

import "errors"

// ErrStoreInUse is met by who runs a controller on a store that another one runs on, or on which a
// call of a reconciler runs on that one left behind.
var ErrStoreInUse = errors.New("another controller runs on this store, or left a call behind that has not returned: stop it, or its process, first")

// Claimer is an optional part of a Store: Claim gives it to one controller, until release is called
// or the process ends, and fails with ErrStoreInUse while another has it. A Stepper claims nothing:
// one that is thrown away leaves what a crash does.
type Claimer interface {
	Claim() (release func(), err error)
}

func claim(s Store) (release func(), err error) {
	if c, ok := s.(Claimer); ok {
		return c.Claim()
	}
	return func() {}, nil
}
