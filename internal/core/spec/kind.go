package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Resource is a pointer to one declared resource of any kind.
type Resource interface {
	// Named leads to its name.
	Named() *string
	// Normalize puts it into its one canonical form.
	Normalize()
	// Needs lists what it needs, in order of kind and name.
	Needs() []Need
	// Blobs lists the content that travels beside it.
	Blobs() []Blob
	// Unique is its name on the engine, before the host's prefix, that no other of its
	// kind may have in a set; empty: none.
	Unique() string
	// Claims lists what it takes for itself on the host and its engine.
	Claims(t NameMapper) []Claim
	// Check finds what is wrong with its fields; its name is checked already.
	Check(c Checker)
	// CheckBounds finds what the managed layer may not have of it.
	CheckBounds(b *Bounds, c Checker)
	// Confine writes into it what holds it to the bounds where it is made.
	Confine(b *Bounds)
}

// Claim is what a resource takes on the host and its engine, in words such as port
// 80/tcp of the host. A shared one does not mind others that share it.
type Claim struct {
	What   string
	Shared bool
}

// Removal says when a resource goes that is no longer declared.
type Removal int

// The removals. What stays for its users is kept while the generation that declared
// it may come back, and goes once nothing that runs is left to go. What stops first is
// stopped and kept likewise. What goes at once waits for nothing.
const (
	AfterUsers Removal = iota
	StopsFirst
	AtOnce
)

// Verb is something that operators may ask of a resource once.
type Verb struct {
	Name string
	// Action is what the kind's reconciler is asked for; empty where the spec or the nonce
	// alone says it.
	Action string
}

// Verbs of resources. Start and stop set what is desired of a workspace until
// another verb comes; each asking with a new nonce makes what failed try again.
const (
	VerbStart    = "start"
	VerbStop     = "stop"
	VerbRetry    = "retry"
	VerbRedeploy = "redeploy"
	VerbRestart  = "restart"
	VerbBuild    = "build"
	VerbCancel   = "cancel"
)

// Kind is one row of the table of kinds: all that others ask of a kind and that its
// resources do not say of themselves.
type Kind struct {
	Name string // begins references, such as network/web
	List string // names several, in messages and in the paths of problems
	Most int    // of one set
	// Progress is how long one may be on its way before it is degraded.
	Progress clock.Duration
	Verbs    []Verb // in order of name
	Removal  Removal
	// Fetched says that it has to be there before anything of another generation is
	// stopped.
	Fetched bool
	// State words a stage for people; nil: Ready once it is there.
	State func(Stage) State
	// Desired is what the kind's reconciler is given of a resource of the set; nil: the
	// resource itself.
	Desired func(s *Set, r Resource, t NameMapper) any
	Storage Storage
}

// Verb finds a verb of the kind.
func (k *Kind) Verb(name string) (Verb, bool) {
	if k == nil {
		return Verb{}, false
	}
	i := slices.IndexFunc(k.Verbs, func(v Verb) bool { return v.Name == name })
	if i < 0 {
		return Verb{}, false
	}
	return k.Verbs[i], true
}

// VerbNames lists the verbs of the kind.
func (k *Kind) VerbNames() []string {
	var out []string
	if k != nil {
		for _, v := range k.Verbs {
			out = append(out, v.Name)
		}
	}
	return out
}

// Of lists the resources of the kind in a set, in its order.
func (k *Kind) Of(s *Set) []Resource { return k.Storage.all(s, k.Name) }

// New makes a resource of the kind.
func (k *Kind) New(name string) Resource {
	r := k.Storage.blank()
	*r.Named() = name
	return r
}

// DesiredOf is what the kind's reconciler is given of a resource of the set.
func (k *Kind) DesiredOf(s *Set, r Resource, t NameMapper) any {
	if k.Desired == nil {
		return r
	}
	return k.Desired(s, r, t)
}

// Table is the kinds in the order of what depends on what.
type Table struct{ rows []*Kind }

// Register adds kinds to the table: they then travel in bundles and in the managed layer,
// and are read, checked, planned and reported like all others. Call it from init
// functions alone: nothing guards the table.
func Register(kinds ...Kind) {
	for i := range kinds {
		Known.rows = append(Known.rows, &kinds[i])
	}
	Kinds = Known.Names()
}

// All lists the rows.
func (t *Table) All() []*Kind { return t.rows }

// Names lists the names of the kinds.
func (t *Table) Names() []string {
	var out []string
	for _, k := range t.All() {
		out = append(out, k.Name)
	}
	return out
}

// Position is the place of a kind in the order of what depends on what; negative: it
// is not in the table.
func (t *Table) Position(kind string) int {
	return slices.IndexFunc(t.All(), func(k *Kind) bool { return k.Name == kind })
}

// Kind finds a kind by its name; nil if it is not in the table.
func (t *Table) Kind(name string) *Kind {
	if i := t.Position(name); i >= 0 {
		return t.All()[i]
	}
	return nil
}

// Listed finds a kind by the name of its list; nil if there is none.
func (t *Table) Listed(list string) *Kind {
	if i := slices.IndexFunc(t.rows, func(k *Kind) bool { return k.List == list }); i >= 0 {
		return t.rows[i]
	}
	return nil
}

// MaxSpec bounds the JSON of one resource that is set by itself, in bytes.
const MaxSpec = 64 << 10

// Read reads one resource strictly: a field that is not known is an error, never
// dropped. The resource comes back in its canonical form, alone in a set, and as
// JSON. It may leave out its name.
func (t *Table) Read(kind, name string, raw []byte) (*Set, json.RawMessage, error) {
	k := t.Kind(kind)
	if k == nil {
		return nil, nil, fmt.Errorf("unknown kind %q: expected one of %s", kind, strings.Join(t.Names(), ", "))
	}
	if len(raw) > MaxSpec {
		return nil, nil, fmt.Errorf("the spec has %d bytes: expected at most %d", len(raw), MaxSpec)
	}
	r := k.New("")
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, nil, fmt.Errorf("the spec cannot be read: %w", err)
	}
	if d.More() {
		return nil, nil, errors.New("the spec goes on after its first JSON value")
	}
	if was := *r.Named(); was != "" && was != name {
		return nil, nil, fmt.Errorf("the spec is of %q: expected %q, or no name", was, name)
	}
	*r.Named() = name
	if problems := Check(r); len(problems) > 0 {
		return nil, nil, Problems(problems)
	}
	s := &Set{}
	k.Storage.put(s, k.Name, []Resource{r})
	s.Normalize()
	canonical, err := json.Marshal(k.Of(s)[0])
	if err != nil {
		return nil, nil, fmt.Errorf("the spec cannot be written: %w", err)
	}
	return s, canonical, nil
}

// Storage is where a set keeps the resources of a kind.
type Storage interface {
	blank() Resource
	all(s *Set, kind string) []Resource
	// put takes the place of all.
	put(s *Set, kind string, list []Resource)
	find(s *Set, kind, name string) Resource
	// malformed says what of the set is no resource of the kind.
	malformed(s *Set, kind string) error
}

type pointer[T any] interface {
	*T
	Resource
}

// In keeps a kind in a list of its own.
func In[T any, P pointer[T]](list func(*Set) *[]T) Storage { return listed[T, P]{list} }

type listed[T any, P pointer[T]] struct{ list func(*Set) *[]T }

func (listed[T, P]) blank() Resource { return P(new(T)) }

func (l listed[T, P]) all(s *Set, _ string) []Resource {
	list := *l.list(s)
	out := make([]Resource, len(list))
	for i := range list {
		out[i] = P(&list[i])
	}
	return out
}

func (l listed[T, P]) put(s *Set, _ string, list []Resource) {
	out := make([]T, len(list))
	for i, r := range list {
		out[i] = *r.(P)
	}
	*l.list(s) = out
}

func (l listed[T, P]) find(s *Set, _, name string) Resource {
	list := *l.list(s)
	i, ok := sort.Find(len(list), func(i int) int { return strings.Compare(name, *P(&list[i]).Named()) })
	if !ok {
		return nil
	}
	return P(&list[i])
}

func (listed[T, P]) malformed(*Set, string) error { return nil }

// InOthers keeps a kind beside those that have a list of their own. Changes to what
// Kind.Of lists are of copies.
func InOthers[T any, P pointer[T]]() Storage { return other[T, P]{} }

type other[T any, P pointer[T]] struct{}

func (other[T, P]) blank() Resource { return P(new(T)) }

func (other[T, P]) all(s *Set, kind string) []Resource {
	var out []Resource
	for _, raw := range s.Others[kind] {
		r := P(new(T))
		if json.Unmarshal(raw, r) == nil { // else malformed says so
			out = append(out, r)
		}
	}
	return out
}

func (other[T, P]) put(s *Set, kind string, list []Resource) {
	delete(s.Others, kind)
	if len(list) == 0 {
		return
	}
	raws := make([]json.RawMessage, 0, len(list))
	for _, r := range list {
		raws = append(raws, json.RawMessage(encoded(r)))
	}
	if s.Others == nil {
		s.Others = map[string][]json.RawMessage{}
	}
	s.Others[kind] = raws
}

func (o other[T, P]) find(s *Set, kind, name string) Resource {
	for _, r := range o.all(s, kind) {
		if *r.Named() == name {
			return r
		}
	}
	return nil
}

func (other[T, P]) malformed(s *Set, kind string) error {
	for i, raw := range s.Others[kind] {
		r, compact := P(new(T)), new(bytes.Buffer)
		if err := json.Unmarshal(raw, r); err != nil {
			return fmt.Errorf("resource %d of kind %s cannot be read: %w", i+1, kind, err)
		}
		if json.Compact(compact, raw) != nil || compact.String() != encoded(r) {
			return fmt.Errorf("resource %d of kind %s has a field that is not known, or is not in canonical form", i+1, kind)
		}
	}
	return nil
}
