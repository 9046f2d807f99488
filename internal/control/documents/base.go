package documents

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/trust"
)

// Follows reports which bases of a release a server accepts.
type Follows int

// The rules. A source of releases shows only its newest one, so that a server may miss
// those in between; a restored server has lost them.
const (
	FollowsNewest    Follows = iota // the base is the newest release of the server
	DescendsOfNewest                // the newest release is among those that it follows
)

// BaseError refuses a release that was built on something else than the newest release of
// the server: what was published since would be undone without a word.
type BaseError struct {
	Release fleet.Resolved
	Origin  fleet.Origin
	Newest  plan.Release
	// Descends reports that it follows the newest release, by others that the server lacks.
	Descends bool
}

func (e *BaseError) Error() string {
	is, newest := fmt.Sprintf("release %s, version %d,", e.Release.Ref, e.Release.Version), fmt.Sprintf("version %d, %s", e.Newest.Version, e.Newest.Ref)
	if e.Older() {
		return is + " is older than the newest release of the server, " + newest
	}
	base := "no release"
	if len(e.Origin.Follows) > 0 {
		base = fmt.Sprintf("version %d", e.Origin.Follows[0].Version)
		if e.Origin.Follows[0].Version == e.Newest.Version {
			base = "another " + base
		}
	}
	return is + " was built on " + base + ", and the newest release of the server is " + newest
}

// Older reports whether the release comes before the newest one: it was accepted once, or
// built on what was.
func (e *BaseError) Older() bool {
	return cmp.Or(cmp.Compare(e.Release.Epoch, e.Newest.Epoch), cmp.Compare(e.Release.Version, e.Newest.Version)) < 0
}

// check compares the base of a release with the newest one that was accepted.
func (rule Follows) check(v *release.Verified, newest *plan.Release) error {
	r, origin := v.Resolved.Value(), v.Roster.Value().Origin
	if origin == nil {
		return nil
	}
	at := slices.IndexFunc(origin.Follows, func(f fleet.ReleaseRef) bool { return f.Digest == newest.Resolved })
	switch {
	case newest.Version == 0, v.Resolved.Digest() == newest.Resolved, at == 0:
		return nil
	case len(origin.Follows) == 0 && r.Epoch > newest.Epoch:
		return nil // what the keys of an earlier epoch signed is no base
	case at > 0 && rule == DescendsOfNewest:
		return nil
	}
	return &BaseError{Release: r, Origin: *origin, Newest: *newest, Descends: at > 0}
}

// explain returns why a release was refused: an older version, or another one of the same
// number, is what a release comes to that was built on an older base.
func (rule Follows) explain(dir string, now *View, at clock.Instant, cause error) error {
	if code := trust.CodeOf(cause); code != trust.Rollback && code != trust.Equivocation {
		return cause
	}
	fresh, err := release.Trust(now.Verifier.State().Root)
	if err != nil {
		return cause
	}
	v, err := release.VerifyDir(dir, fresh, at)
	if err != nil {
		return cause
	}
	err = rule.check(v, &now.Release)
	if _, is := errors.AsType[*BaseError](err); is {
		return err
	}
	return cause
}
