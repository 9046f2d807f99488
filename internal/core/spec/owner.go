package spec

import (
	"fmt"
	"slices"
	"strings"
)

// Owner is whose an entry of the managed layer is: KIND/NAME of what set it and alone
// changes it, or empty, which is the operators.
type Owner string

// Operators own what people set.
const Operators Owner = ""

// OwnerSession is the kind of owner that a session is.
const OwnerSession = "session"

// OwnerKinds are the kinds of owners that a declaration may let in beside operators.
var OwnerKinds = []string{OwnerSession}

// SessionOwner is a session as an owner.
func SessionOwner(name string) Owner { return Owner(OwnerSession + "/" + name) }

func (o Owner) split() (kind, name string) {
	kind, name, _ = strings.Cut(string(o), "/")
	return kind, name
}

// Session is the name of the session that the owner is; empty of any other.
func (o Owner) Session() string {
	if kind, name := o.split(); kind == OwnerSession {
		return name
	}
	return ""
}

// String names the owner for people.
func (o Owner) String() string {
	if o == Operators {
		return "operators"
	}
	kind, name := o.split()
	return kind + " " + name
}

// Name is that of what the owner is; empty for operators.
func (o Owner) Name() string {
	_, name := o.split()
	return name
}

// Show is the command that shows what the owner is, for an owner that is none of the operators.
func (o Owner) Show() string {
	kind, name := o.split()
	return "steady " + kind + " show " + name
}

// Check refuses an owner that this version does not know.
func (o Owner) Check() error {
	kind, name := o.split()
	switch {
	case o == Operators, slices.Contains(OwnerKinds, kind) && CheckName(name) == nil:
		return nil
	}
	return fmt.Errorf("owner %.64q is not known: expected none for operators, or %s/NAME", string(o), strings.Join(OwnerKinds, "/NAME, "))
}

// CheckOwner refuses an entry of an owner whose entries the declaration does not let in.
// Operators' are judged by the rest of the bounds.
func (b *Bounds) CheckOwner(o Owner) error {
	kind, _ := o.split()
	switch {
	case o == Operators:
		return nil
	case o.Check() != nil:
		return o.Check()
	case b.RequireSigned:
		return fmt.Errorf("entries of %s are not signed, and the host's declaration takes only those that an operator signed (requireSigned)", o)
	case !slices.Contains(b.Owners, kind):
		return fmt.Errorf("the host's declaration takes no entries of %s: expected \"owners: [%s]\" in bounds", o, strings.Join(append(slices.Clone(b.Owners), kind), ", "))
	}
	return nil
}
