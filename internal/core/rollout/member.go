package rollout

import (
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Status is what one member of a rollout stands at, as the server sees it.
type Status uint8

// The statuses. Zero is never valid.
const (
	Waiting    Status = iota + 1 // needs the target and has no grant
	AtTarget                     // ran the target already; no evidence for a wave
	Busy                         // needs the target but is still finishing something else
	Offered                      // has a grant that it did not claim yet
	Claimed                      // on its way: activating, soaking or deferred
	Converged                    // runs the target, healthy through its soak
	Broken                       // failed and not recovered; holds its slot
	Refused                      // will not take the target; nothing changed there
	RolledBack                   // runs its earlier bundle again after a failure
	Ahead                        // took a rollout that opened after this one
	Absent                       // never enrolled, or decommissioned: counts for nothing
	statuses                     // how many there are, and zero
)

var statusNames = [statuses]string{"", "waiting", "at-target", "busy", "offered", "claimed", "converged", "failed", "refused", "reverted", "ahead", "absent"}

func (s Status) String() string { return statusNames[s] }

// Arrived reports whether those who go after the member may go.
func (s Status) Arrived() bool { return s == Converged || s == AtTarget }

// Manifest is a manifest with all of its leaves, sorted by host, as the server
// verified it. It is shared and must not be changed.
type Manifest struct {
	Digest digest.Digest
	Header *fleet.Manifest
	Leaves []fleet.Leaf
	// Members resolves each of the header's budgets to its host list.
	Members [][]string
}

// Leaf returns the index of a host's leaf.
func (m *Manifest) Leaf(host string) (int, bool) {
	return sort.Find(len(m.Leaves), func(i int) int { return strings.Compare(host, m.Leaves[i].Host) })
}

// HostPlan returns what the manifest says for one host, or nil.
func (m *Manifest) HostPlan(host string) *fleet.HostPlan {
	i, ok := m.Leaf(host)
	if !ok {
		return nil
	}
	p := fleet.HostPlanOf(m.Header, m.Digest, &m.Leaves[i])
	return &p
}

// Member is one host in one rollout.
type Member struct {
	Status Status
	Online bool
	// Unwilling says that it is there and did not take what it was offered, again and
	// again: it is offered more, and nobody waits for it.
	Unwilling bool
	// Final says that a Broken member moves no more by itself.
	Final bool
	// HasSlot says that the member's host has a slot already: it failed in an
	// earlier rollout and did not recover.
	HasSlot bool
	// Unfit says that the member's host does not run its bundle as it should.
	Unfit bool
	// Marks stay for as long as the rollout may give out grants.
	Mark
	class int32
}

// Mark is what a rollout remembers of a member whatever becomes of it later.
type Mark struct {
	// Failed counts against the wave once, whatever follows.
	Failed bool `json:"failed,omitempty"`
	// Proven says that the host's own signed event reported the failure, so
	// that other hosts can be shown it.
	Proven bool `json:"proven,omitempty"`
	// Away says that it failed for want of contact with a server that was away itself: its
	// bundle is not to blame.
	Away bool `json:"away,omitempty"`
	// Refused is why the member declined for good.
	Refused string `json:"refused,omitempty"`
	// Claimed says that the member acted on a grant of this rollout.
	Claimed bool `json:"claimed,omitempty"`
}

// WaveCount aggregates the members of a wave.
type WaveCount struct {
	By [statuses]int
	// Offline counts waiting members that are not there or unwilling, and Ignored the
	// unwilling ones that have an offer, are staged or repair: all are skipped.
	Offline, Ignored int
	// Unsettled counts broken members that are still on their way back.
	Unsettled int
	// Failures counts members marked failed or refused; Proven those whose
	// failure other hosts can be shown.
	Failures, Proven int
	// Unfit counts converged members that do not run their bundle as they should:
	// they are no evidence.
	Unfit int
	// Tried counts members that were given the target, whatever became of it.
	Tried int
}

// Members returns how many hosts the wave has.
func (c *WaveCount) Members() int {
	n := 0
	for _, v := range c.By {
		n += v
	}
	return n
}

// Class is a set of members that every gate but the host edges treats alike:
// the same wave, the same budgets and the same windows. Ready holds those that wait, are online
// and need a slot; Free those of them that are not deferred.
type Class struct {
	Wave    int
	Budgets []int // the caller's budget ids, ascending
	Windows []int // indexes into the manifest's maintenance windows
	Ready   Set
	Free    Set
}

// Set is a set of member indexes.
type Set struct {
	words []uint64
	n     int
}

// Len returns how many indexes the set holds.
func (s *Set) Len() int { return s.n }

// Has reports whether the set holds an index.
func (s *Set) Has(i int) bool {
	return i>>6 < len(s.words) && s.words[i>>6]&(1<<(i&63)) != 0
}

// Put says whether the set holds an index, and reports whether that changed.
func (s *Set) Put(i int, in bool) bool {
	w, b := i>>6, uint64(1)<<(i&63)
	for w >= len(s.words) {
		s.words = append(s.words, 0)
	}
	switch had := s.words[w]&b != 0; {
	case in && !had:
		s.words[w] |= b
		s.n++
	case !in && had:
		s.words[w] &^= b
		s.n--
	default:
		return false
	}
	return true
}

// Next returns the smallest index at or after i, or -1.
func (s *Set) Next(i int) int {
	for w := i >> 6; w < len(s.words); w++ {
		word := s.words[w]
		if w == i>>6 {
			word &= ^uint64(0) << (i & 63)
		}
		if word != 0 {
			return w<<6 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// SetBlocked notes why the open wave is not promoted, or with "" that it is.
func (r *Rollout) SetBlocked(code string, at clock.Instant) {
	switch {
	case code == "":
		r.BlockedSince = 0
	case r.Blocked == "":
		r.BlockedSince = at
	}
	r.Blocked = code
}

// Rollout is one manifest on its way. Exported fields that encode to JSON are
// its state; the rest is derived from them, the manifest and the hosts.
type Rollout struct {
	Name     string        `json:"name"`
	Channel  string        `json:"channel"`
	Ref      string        `json:"ref"`
	Manifest digest.Digest `json:"manifest"`
	Phase    Phase         `json:"phase"`
	Reason   string        `json:"reason"`
	OpenedAt clock.Instant `json:"openedAt"`
	EndedAt  clock.Instant `json:"endedAt,omitempty"`
	// Cursor is the last wave that is open; it goes back by a retry alone.
	Cursor int `json:"cursor"`
	// Reverting says that the failure policy sends hosts back.
	Reverting bool `json:"reverting,omitempty"`
	// Ordered says that an operator's signed rollback does: no failure need be proven
	// to the hosts.
	Ordered     bool   `json:"ordered,omitempty"`
	Paused      bool   `json:"paused,omitempty"`
	PauseReason string `json:"pauseReason,omitempty"`
	// Final says that a failed rollout was cancelled and cannot be resumed.
	Final bool `json:"final,omitempty"`
	// Acknowledged failures per wave no longer count against its limit.
	Acknowledged []int `json:"acknowledged"`
	// BreakGlass is why every wave was opened at once, empty when none was so.
	BreakGlass string `json:"breakGlass,omitempty"`
	// Accepted are the waves that operators let pass.
	Accepted []Accepted `json:"accepted,omitempty"`
	// RetriedAt is when an operator had it tried again: what hosts claimed before is not
	// part of it. RetrySigned says that hosts which refuse the target were told to take it.
	RetriedAt   clock.Instant `json:"retriedAt,omitempty"`
	RetrySigned bool          `json:"retrySigned,omitempty"`
	// Granted says that a host was granted the target.
	Granted bool `json:"granted,omitempty"`
	// SoakedAt is when the first member that converged has passed its soak on the
	// server's clock too, whatever it did since.
	SoakedAt clock.Instant `json:"soakedAt,omitempty"`
	// StandIns is how many hosts may try the target for the first wave that opened the
	// next one because none of its hosts is enrolled; zero where that did not happen.
	StandIns int `json:"standIns,omitempty"`
	// Blocked is the code of the last reason logged for not promoting.
	Blocked string `json:"blocked,omitempty"`
	// BlockedSince is when the open wave began to be blocked.
	BlockedSince clock.Instant   `json:"blockedSince,omitempty"`
	Marks        map[string]Mark `json:"marks,omitempty"`

	// Place is where the rollout stands in the order of opening.
	Place   int         `json:"-"`
	Plan    *Manifest   `json:"-"`
	Members []Member    `json:"-"` // parallel to Plan.Leaves
	Waves   []WaveCount `json:"-"`
	Classes []Class     `json:"-"`
	// InSlot are the members that wait, are online, have a slot already and are not
	// set aside.
	InSlot Set `json:"-"`
	// RollbackNeeded holds the members of a reverting rollout that must be sent back and
	// have no grant for it; RollbackPending those that its end waits for.
	RollbackNeeded  Set `json:"-"`
	RollbackPending Set `json:"-"`
	// Outstanding holds the members whose required evidence does not pass now.
	Outstanding Set `json:"-"`
	// Staged holds the members that wait for the grant to reboot into what the
	// rollout staged on them.
	Staged Set `json:"-"`
	// Judged is how many failures of an ended rollout were looked at already.
	Judged int `json:"-"`
	total  WaveCount
	// deferred holds the members that are deferred; waitingFor lists them by the one that
	// they go after.
	deferred   Set
	waitingFor map[int][]int
}

// Bind attaches the manifest and builds the members, all waiting and offline.
// The caller then sets every member.
func (r *Rollout) Bind(m *Manifest) error {
	if m.Digest != r.Manifest {
		return fmt.Errorf("rollout %s is of manifest %s, not %s", r.Name, r.Manifest.Short(), m.Digest.Short())
	}
	r.Plan = m
	r.Members = make([]Member, len(m.Leaves))
	r.Waves = make([]WaveCount, len(m.Header.Waves))
	r.Outstanding, r.deferred, r.waitingFor = Set{}, Set{}, nil
	r.total, r.InSlot, r.RollbackNeeded, r.RollbackPending, r.Staged = WaveCount{}, Set{}, Set{}, Set{}, Set{}
	for len(r.Acknowledged) < len(r.Waves) {
		r.Acknowledged = append(r.Acknowledged, 0)
	}
	r.Classes = []Class{{}}
	for i := range m.Leaves {
		r.Members[i] = Member{Status: Waiting, Mark: r.Marks[m.Leaves[i].Host]}
		r.count(i, +1)
	}
	return nil
}

func (r *Rollout) count(i, d int) {
	m := &r.Members[i]
	for _, c := range [2]*WaveCount{&r.Waves[r.Plan.Leaves[i].Wave], &r.total} {
		c.By[m.Status] += d
		if m.Status == Waiting && (!m.Online || m.Unwilling) {
			c.Offline += d
		}
		if m.ignores() {
			c.Ignored += d
		}
		if m.Status == Broken && !m.Final {
			c.Unsettled += d
		}
		if m.Failed || m.Refused != "" {
			c.Failures += d
		}
		if m.Proven {
			c.Proven += d
		}
		if m.Status == Converged && m.Unfit {
			c.Unfit += d
		}
		if m.tried() {
			c.Tried += d
		}
	}
}

// Set moves a member and its aggregates; what is remembered of it stays. It reports
// whether anything changed but the slot, or a member that waits got one.
func (r *Rollout) Set(i int, to Member) bool {
	m := &r.Members[i]
	if to.Mark, to.class = m.Mark, m.class; *m == to {
		return false
	}
	slot := *m
	slot.HasSlot = to.HasSlot
	r.count(i, -1)
	*m = to
	r.count(i, +1)
	r.ready(i)
	if m.Status.Arrived() {
		r.undefer(i)
	}
	return slot != to || to.HasSlot && to.Status == Waiting
}

func (r *Rollout) ready(i int) {
	m := &r.Members[i]
	in := m.Status == Waiting && m.Online
	r.Classes[m.class].Ready.Put(i, in && !m.HasSlot)
	r.Classes[m.class].Free.Put(i, in && !m.HasSlot && !r.deferred.Has(i))
	r.InSlot.Put(i, in && m.HasSlot && !r.deferred.Has(i))
}

// Defer has a member that goes after another be looked at no more until that one
// has arrived, so that a wave which waits for one host costs nothing to plan. It
// decides nothing: a state that was folded again sets the same members.
func (r *Rollout) Defer(i, after int) {
	if r.deferred.Put(i, true) {
		if r.waitingFor == nil {
			r.waitingFor = map[int][]int{}
		}
		r.waitingFor[after] = append(r.waitingFor[after], i)
		r.ready(i)
	}
}

// undefer ends that members are deferred for one that has arrived.
func (r *Rollout) undefer(after int) {
	for _, i := range r.waitingFor[after] {
		r.deferred.Put(i, false)
		r.ready(i)
	}
	delete(r.waitingFor, after)
}

// Evidence counts the members that show that the target works.
func (c *WaveCount) Evidence() int { return c.By[Converged] - c.Unfit }

// ignores reports whether the member has something to take, to boot or to end first, and does not.
func (m *Member) ignores() bool {
	return m.Unwilling && (m.Status == Offered || m.Status == Claimed || m.Status == Busy)
}

// SetMark changes what is remembered of a member.
func (r *Rollout) SetMark(host string, change func(*Mark)) {
	if r.Plan == nil {
		return // nothing is decided from it any more
	}
	if r.Marks == nil {
		r.Marks = map[string]Mark{}
	}
	mark := r.Marks[host]
	change(&mark)
	r.Marks[host] = mark
	if i, ok := r.Plan.Leaf(host); ok {
		r.count(i, -1)
		r.Members[i].Mark = mark
		r.count(i, +1)
	}
}

// Classify groups the members by wave, by windows and by the budgets that the
// caller says cap each of them; budgets must be ascending and is not kept.
func (r *Rollout) Classify(budgets func(member int) []int) {
	r.Classes = r.Classes[:0]
	index := map[string]int32{}
	last, key := int32(-1), []byte(nil)
	for i := range r.Members {
		wave, windows, b := r.Plan.Leaves[i].Wave, r.Plan.Leaves[i].Windows, budgets(i)
		c := last // neighbours are mostly alike
		if c < 0 || r.Classes[c].Wave != wave || !slices.Equal(r.Classes[c].Budgets, b) || !slices.Equal(r.Classes[c].Windows, windows) {
			key = classKey(key[:0], wave, b, windows)
			var ok bool
			if c, ok = index[string(key)]; !ok {
				c = int32(len(r.Classes))
				index[string(key)] = c
				r.Classes = append(r.Classes, Class{Wave: wave, Budgets: slices.Clone(b), Windows: windows})
			}
			last = c
		}
		r.Members[i].class = c
		r.ready(i)
	}
	if len(r.Classes) == 0 {
		r.Classes = []Class{{}}
	}
}

func classKey(key []byte, wave int, budgets, windows []int) []byte {
	key = strconv.AppendInt(key, int64(wave), 10)
	for _, b := range budgets {
		key = strconv.AppendInt(append(key, ' '), int64(b), 10)
	}
	for _, w := range windows {
		key = strconv.AppendInt(append(key, '/'), int64(w), 10)
	}
	return key
}

// Unbind forgets what is derived and what is remembered of members, of a rollout
// that gives out nothing more: the state must not grow with every release.
func (r *Rollout) Unbind() {
	r.Marks = nil
	r.Plan, r.Members, r.Waves, r.Classes = nil, nil, nil, nil
	r.Outstanding, r.deferred, r.waitingFor = Set{}, Set{}, nil
	r.InSlot, r.RollbackNeeded, r.RollbackPending, r.Staged = Set{}, Set{}, Set{}, Set{}
}

// Total aggregates all waves.
func (r *Rollout) Total() *WaveCount { return &r.total }

// Excess returns the first wave with more unacknowledged failures than the
// policy allows, or -1.
func (r *Rollout) Excess() int {
	for w := range r.Waves {
		if r.Waves[w].Failures-r.Acknowledged[w] > r.Plan.Header.Policy.MaxFailures {
			return w
		}
	}
	return -1
}

// Moving counts the members whose part in the rollout is not decided yet:
// those on their way, on their way back, or still busy elsewhere.
func (c *WaveCount) Moving() int {
	return c.By[Busy] + c.By[Offered] - c.Ignored + c.By[Claimed] + c.Unsettled
}

// Skipped counts the members that a wave goes on without.
func (c *WaveCount) Skipped() int { return c.Offline + c.Ignored }

// Present returns how many hosts of the wave are enrolled.
func (c *WaveCount) Present() int { return c.Members() - c.By[Absent] }

// Ready counts the members that could be granted as far as they are concerned.
func (c *WaveCount) Ready() int { return c.By[Waiting] - c.Offline }
