package oracle

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Facts are what a log states. Names that it never mentioned read as a host that never
// enrolled and a channel without refs. Nobody outside the package writes to them.
type Facts struct {
	Rollouts  []*Rollout               // in the order in which they opened, without those that were pruned
	Epoch     uint64                   // of keys, by the newest root
	Overrides []event.OverrideAccepted // in force, in the order in which they were accepted
	Barred    map[digest.Digest]bool   // manifests that fail a required control
	Edges     []fleet.Edge

	docs         Documents
	hosts        map[string]*Host
	keys         map[string][]*Host // that have a key
	channels     map[string]*Channel
	issued       clock.Instant // of the newest statement of freshness
	accepted     clock.Instant // when it was
	latest       clock.Instant // that the server wrote since
	before       clock.Instant // latest, of an earlier instant
	releaseEpoch uint64        // of the newest release
	asked        int           // repairs
	opened       int           // rollouts
	resumed      clock.Instant // when a server began to serve again
}

// Channel is what the log states of one channel.
type Channel struct {
	Name              string
	Refs              []fleet.ManifestRef // newest first
	Active            *Rollout            // not ended, or halted and neither cancelled nor replaced
	Latest, Converged *Rollout
	Queued            digest.Digest // as it was logged last

	Window      clock.Duration
	OnNewRef    fleet.OnNewRef
	Quarantined map[digest.Digest]bool
	Deferral    string // as it was logged last of the ref that is to open
}

// Rollout is what the log states of one rollout.
type Rollout struct {
	Name, Channel                     string
	Manifest                          *rollout.Manifest
	Phase                             rollout.Phase
	EndedAt                           clock.Instant
	Cursor                            int // the open wave
	Paused, Reverting, Ordered, Final bool
	Resumed                           bool         // by an operator, or tried again, since it failed
	Granted                           bool         // to anybody
	Forced                            map[int]bool // waves that an operator let pass: who waits in them is late
	Blocked                           string       // the code that was logged last for not promoting

	Order       int // of opening
	OpenedAt    clock.Instant
	members     [][]*Host       // of each budget
	Absent      int             // hosts of the first wave that was promoted with nobody there
	Glass       bool            // every wave was opened at once
	Soaked      clock.Instant   // when somebody converged in it by host's and server's clock
	Marks       map[string]Mark // by host
	Excused     []int           // failures that an operator took note of, by wave
	Accepted    map[Failing]bool
	Retried     clock.Instant // when an operator had it tried again
	SignedRetry bool          // by signature, so that who refuses it may take it
}

// Mark is what stays of a member's part in a rollout.
type Mark struct{ Failed, Proven, Refused, Claimed, Away bool }

// Failing is one control, or one probe as a whole, that does not pass on a host.
type Failing struct{ Host, Control string }

// New returns the facts of an empty log.
func New(docs Documents) *Facts {
	return &Facts{docs: docs, hosts: map[string]*Host{}, keys: map[string][]*Host{}, channels: map[string]*Channel{}, Barred: map[digest.Digest]bool{}}
}

// Host returns the facts of a host.
func (f *Facts) Host(name string) *Host {
	h := f.hosts[name]
	if h == nil {
		h = &Host{Name: name}
		f.hosts[name] = h
	}
	return h
}

// Channel returns the facts of a channel.
func (f *Facts) Channel(name string) *Channel {
	c := f.channels[name]
	if c == nil {
		c = &Channel{Name: name, Quarantined: map[digest.Digest]bool{}}
		f.channels[name] = c
	}
	return c
}

// Find returns the newest rollout of a manifest that was not pruned, or nil.
func (f *Facts) Find(d digest.Digest) *Rollout {
	for _, r := range slices.Backward(f.Rollouts) {
		if r.Manifest.Digest == d {
			return r
		}
	}
	return nil
}

// leaf returns what a manifest says of a host, or nil.
func (f *Facts) leaf(name string, d digest.Digest) (*rollout.Manifest, *fleet.Leaf) {
	m, err := f.docs.Manifest(d)
	if err != nil {
		return nil, nil
	}
	return m, leafOf(m, name)
}

func leafOf(m *rollout.Manifest, name string) *fleet.Leaf {
	if i, member := m.Leaf(name); member {
		return &m.Leaves[i]
	}
	return nil
}

// outdated reports whether a rollout was signed in a key epoch that has ended: hosts
// take nothing of it any more.
func (f *Facts) outdated(r *Rollout) bool { return r.Manifest.Header.Epoch < f.Epoch }

// Mark returns what stays of a host's part in a rollout.
func (r *Rollout) Mark(name string) Mark { return r.Marks[name] }

func (r *Rollout) mark(name string, set func(*Mark)) {
	m := r.Marks[name]
	set(&m)
	r.Marks[name] = m
}

// gives reports whether the phase and the operators let a rollout give out its target.
func (r *Rollout) gives() bool {
	return !r.Reverting && !r.Paused && (!r.Phase.Ended() || r.Phase == rollout.Terminal)
}

// next is what the channel is to open, or nil.
func (c *Channel) next() *fleet.ManifestRef {
	if len(c.Refs) == 0 || c.Latest != nil && c.Latest.Manifest.Digest == c.Refs[0].Digest {
		return nil
	}
	return &c.Refs[0]
}

// count counts the members of a wave with such a mark.
func (r *Rollout) count(wave int, is func(Mark) bool) (n int) {
	for i := range r.Manifest.Leaves {
		if leaf := &r.Manifest.Leaves[i]; leaf.Wave == wave && is(r.Marks[leaf.Host]) {
			n++
		}
	}
	return n
}

// failures counts the members of a wave that failed or refused, whatever became of them.
func (r *Rollout) failures(wave int) int {
	return r.count(wave, func(m Mark) bool { return m.Failed || m.Refused })
}

// Failures counts those of them that no operator took note of.
func (r *Rollout) Failures(wave int) int {
	if wave < 0 || wave >= len(r.Excused) {
		return 0
	}
	return r.failures(wave) - r.Excused[wave]
}

// Proven counts the members of a wave whose own signed report says that they failed.
func (r *Rollout) Proven(wave int) int { return r.count(wave, func(m Mark) bool { return m.Proven }) }

// Excess is the first wave with more failures than the policy allows, or -1.
func (r *Rollout) Excess() int {
	for w := range r.Excused {
		if r.Failures(w) > r.Manifest.Header.Policy.MaxFailures {
			return w
		}
	}
	return -1
}

// excuse has the failures so far count no more.
func (r *Rollout) excuse() {
	for w := range r.Excused {
		r.Excused[w] = r.failures(w)
	}
}
