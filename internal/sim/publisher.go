package sim

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/agent/verify"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// publisher signs the documents of a schedule with real keys, and keeps every one
// that it ever signed: a lying server gives out old ones, mixes them, and makes
// up others.
type publisher struct {
	w         *World
	stamps    [][]byte // by release, oldest first
	resolved  [][]byte
	manifests map[string][][]byte      // by rollout name: the envelope, then forgeries of it
	names     map[string]digest.Digest // of manifests, by rollout name
	trees     map[digest.Digest]*trust.Tree
	leaves    map[digest.Digest][][]byte
	overrides map[digest.Digest]file   // overrides, by digest
	versions  map[digest.Digest]uint64 // of timestamps and snapshots that were signed
	// memory is everybody's: all check the same documents, each of them for the first
	// time with the whole of trust.
	memory trust.Memory
}

// keyring is made once: signatures cost more than the rest of a schedule. It has the
// roots of all epochs with the keys of their roles.
var keyring = sync.OnceValue(func() (k struct {
	roles     []map[trust.Role]trust.Signer // by epoch
	operators [][]trust.Signer              // who have an override key, by epoch
	attacker  trust.Signer
	roots     [][]byte
	names     []digest.Digest
	forged    [][]byte      // of the same versions, as an attacker would have them
	begun     []trust.State // what a host trusts that begins with each root
}) {
	k.attacker = signer("attacker")
	all, stolen := map[trust.Role]trust.Signer{}, map[trust.Role]trust.Signer{}
	for _, r := range trust.Roles() {
		stolen[r] = k.attacker
	}
	var ops []trust.Signer
	var before []trust.Signer
	for n := uint64(1); n <= epochs; n++ {
		for _, r := range trust.Roles() {
			if n < epochs || r == trust.RoleRelease || r == trust.RoleTimestamp { // the last one goes on with the rest
				all[r] = signer(string(r) + " " + strconv.FormatUint(n, 10))
			}
		}
		if n < epochs {
			ops = nil
			for i := range operators {
				ops = append(ops, signer(fmt.Sprintf("%s %d %d", trust.RoleOverride, n, i)))
			}
			all[trust.RoleOverride] = ops[0]
		}
		k.operators = append(k.operators, ops)
		k.roles = append(k.roles, maps.Clone(all))
		k.roots = append(k.roots, rootOf(n, all, ops, append(before, all[trust.RoleRoot])))
		k.names = append(k.names, digest.Of(mustPayload(k.roots[n-1])))
		k.forged = append(k.forged, rootOf(n, stolen, []trust.Signer{k.attacker}, []trust.Signer{k.attacker}))
		st, err := trust.Begin("sim", k.roots[n-1], k.names[n-1])
		if err != nil {
			panic("sim: nobody can begin with a root: " + err.Error())
		}
		k.begun = append(k.begun, st)
		before = []trust.Signer{all[trust.RoleRoot]}
	}
	return k
})

func rootOf(n uint64, roles map[trust.Role]trust.Signer, ops, signers []trust.Signer) []byte {
	spec := map[trust.Role]trust.RoleSpec{}
	for r, key := range roles {
		spec[r] = trust.RoleSpec{Keys: []ed25519.PublicKey{key.Public()}, Threshold: 1}
	}
	all := trust.RoleSpec{Threshold: 1}
	for _, o := range ops {
		all.Keys = append(all.Keys, o.Public())
	}
	spec[trust.RoleOverride] = all
	root, err := trust.NewRoot(head(trust.TypeRoot, edition{n, n}, epoch), epoch.Add(365*clock.Day), spec)
	var env []byte
	if err == nil {
		env, err = trust.SignRoot(root, slices.CompactFunc(signers, func(a, b trust.Signer) bool { return a.KeyID() == b.KeyID() })...)
	}
	if err != nil {
		panic("sim: no root can be made: " + err.Error())
	}
	return env
}

func signer(name string) trust.Signer {
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, "sim "+name)
	s, err := trust.NewSigner(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		panic("sim: no signer can be made: " + err.Error())
	}
	return s
}

func head(docType string, e edition, at clock.Instant) fleet.Document {
	return fleet.Document{Type: docType, Fleet: "sim", Epoch: e.epoch, Version: e.version, IssuedAt: at}
}

func newPublisher(w *World) *publisher {
	return &publisher{w: w, manifests: map[string][][]byte{}, names: map[string]digest.Digest{}, trees: map[digest.Digest]*trust.Tree{},
		leaves: map[digest.Digest][][]byte{}, versions: map[digest.Digest]uint64{}, overrides: map[digest.Digest]file{}}
}

// keys are those of the present epoch.
func (n *publisher) keys() map[trust.Role]trust.Signer { return keyring().roles[n.w.epoch-1] }

func (n *publisher) sign(role trust.Role, docType string, doc any) ([]byte, digest.Digest) {
	raw, err := trust.Canonical(doc)
	var env []byte
	if err == nil {
		env, err = trust.Sign(docType, raw, n.keys()[role])
	}
	if err != nil {
		n.w.violate("core", "%v", err)
	}
	return env, digest.Of(raw)
}

// bind signs a manifest over its leaves and names it.
func (n *publisher) bind(m *rollout.Manifest) {
	var leaves [][]byte
	for i := range m.Leaves {
		raw, err := trust.Canonical(&m.Leaves[i])
		if err != nil {
			n.w.violate("core", "%v", err)
		}
		leaves = append(leaves, raw)
	}
	tree := trust.NewTree(leaves)
	m.Header.LeavesRoot = hex.EncodeToString(tree.Root())
	env, d := n.sign(trust.RoleRelease, fleet.TypeManifest, m.Header)
	m.Digest = d
	n.trees[d], n.leaves[d] = tree, leaves
	forged, _ := trust.Sign(fleet.TypeManifest, mustPayload(env), keyring().attacker)
	n.manifests[m.Header.Rollout()], n.names[m.Header.Rollout()] = [][]byte{env, forged}, d
}

func mustPayload(env []byte) []byte {
	e, err := trust.ParseEnvelope(env)
	if err != nil {
		return nil
	}
	return e.Payload
}

// publish signs a release's snapshot and timestamp, and names the snapshot.
func (n *publisher) publish(ev *event.ReleaseAccepted, at clock.Instant) {
	r := fleet.Resolved{Document: head(fleet.TypeResolved, edition{ev.Epoch, ev.Version}, at), Ref: ev.Ref, Channels: map[string]fleet.ResolvedChannel{},
		ChannelEdges: ev.ChannelEdge, Roster: digest.Of([]byte("roster")), Revocations: digest.Of([]byte("revocations"))}
	for _, c := range ev.Channels {
		r.Channels[c.Channel] = fleet.ResolvedChannel{Ref: ev.Ref, FreshnessWindow: c.FreshnessWindow, OnNewRef: c.OnNewRef, Manifests: c.Manifests}
	}
	env, d := n.sign(trust.RoleRelease, fleet.TypeResolved, &r)
	ev.Resolved = d
	n.resolved = append(n.resolved, env)
	t := fleet.Timestamp{Document: head(fleet.TypeTimestamp, edition{ev.Epoch, ev.Version}, at), Resolved: d, ResolvedVersion: ev.Version}
	env, at2 := n.sign(trust.RoleTimestamp, fleet.TypeTimestamp, &t)
	n.stamps = append(n.stamps, env)
	n.versions[d], n.versions[at2] = ev.Version, ev.Version
}

// source is what one host's requests for documents are answered with.
type source struct{ a *agent }

var errMissing = errors.New("there is no such document")

// Trust gives a document, or another one in its place.
func (s source) Trust(_ context.Context, file string) ([]byte, error) {
	n := s.a.w.publisher
	list := n.stamps
	if version, root := strings.CutSuffix(file, ".root.json"); root {
		v, err := strconv.ParseUint(version, 10, 64)
		if err != nil {
			return nil, err
		}
		return s.root(v)
	}
	if file == wire.TrustResolved {
		list = n.resolved
	}
	newest := n.w.nth(n.w.server.edition())
	if newest == 0 {
		return nil, errMissing
	}
	return s.lie(list[newest-1], list...), nil
}

// Manifest gives a rollout's manifest with the host's leaf, or something else.
func (s source) Manifest(_ context.Context, name string) (hm wire.HostManifest, err error) {
	n, who := s.a.w.publisher, s.a.name
	envs := n.manifests[name]
	if len(envs) == 0 {
		return hm, errMissing
	}
	if s.lies() { // the leaf of another host
		who = s.a.w.agents[s.a.w.rand.IntN(len(s.a.w.agents))].name
	}
	d := n.names[name]
	i, ok := s.a.w.docs[d].Leaf(who)
	if !ok {
		return hm, errMissing
	}
	p, err := n.trees[d].InclusionProof(uint64(i))
	if err != nil {
		return hm, err
	}
	hm.Envelope = s.lie(envs[0], envs...)
	hm.Leaf = wire.LeafProof{Leaf: n.leaves[d][i], Index: i, Proof: p.Hashes}
	if s.lies() { // another target in it
		hm.Leaf.Leaf = otherTarget(hm.Leaf.Leaf)
	}
	return hm, nil
}

// carried is what half of the grants come with. What a host would be refused is left out.
func (s source) carried(g *plan.Grant) *wire.Documents {
	if crc32.ChecksumIEEE([]byte(g.ID))&1 == 0 {
		return nil
	}
	ctx, d := context.Background(), &wire.Documents{Root: max(s.a.w.server.state.Root.Version, 1)}
	if s.a.w.server.edition().version != s.a.follower.Stamp() {
		d.Timestamp, _ = s.Trust(ctx, wire.TrustTimestamp)
		d.Resolved, _ = s.Trust(ctx, wire.TrustResolved)
	}
	if hm, err := s.Manifest(ctx, g.Rollout); err == nil {
		d.Manifest = &hm
	}
	return d
}

// otherTarget changes a digit of the bundle that a leaf names.
func otherTarget(leaf []byte) []byte {
	mark := []byte(`"target":"sha256:`)
	leaf = slices.Clone(leaf)
	if i := bytes.Index(leaf, mark) + len(mark); i >= len(mark) && i < len(leaf) {
		leaf[i] = "10"[leaf[i]&1]
	}
	return leaf
}

func (s source) lies() bool { return s.a.w.faulty(Lies, 0.04) }

// lie gives the true document, mostly; or an older one, a forged or a torn one.
func (s source) lie(real []byte, others ...[]byte) []byte {
	if !s.lies() {
		return real
	}
	r := s.a.w.rand
	switch r.IntN(4) {
	case 3:
		return tampered(real)
	case 0:
		return others[r.IntN(len(others))]
	case 1:
		torn := slices.Clone(real)
		torn[r.IntN(len(torn))] ^= 1 << r.IntN(7)
		return torn
	}
	e, err := trust.ParseEnvelope(real)
	if err != nil {
		return nil
	}
	forged, _ := trust.Sign(e.PayloadType, e.Payload, keyring().attacker)
	return forged
}

// envelope is one as JSON, whose parts can be changed.
type envelope struct {
	Payload     []byte            `json:"payload"`
	PayloadType string            `json:"payloadType"`
	Signatures  []json.RawMessage `json:"signatures"`
}

func altered(env []byte, change func(*envelope)) []byte {
	var e envelope
	if json.Unmarshal(env, &e) != nil {
		return nil
	}
	change(&e)
	raw, _ := json.Marshal(&e)
	return raw
}

// tampered raises the version in a payload and keeps its signatures.
func tampered(env []byte) []byte {
	return altered(env, func(e *envelope) {
		e.Payload = bytes.Replace(e.Payload, []byte(`"version":`), []byte(`"version":7`), 1)
	})
}

// follow starts a host's real code of trust on the state that it kept.
func (a *agent) follow() {
	f, err := verify.New(verify.Options{Fleet: "sim", Host: a.name, Source: source{a},
		Missing: func(err error) bool { return errors.Is(err, errMissing) },
		Save: func(_ context.Context, s trust.State) error {
			a.w.checks.trusts(a, s)
			a.trusted = s
			return nil
		},
		Wall: func() clock.Instant { return a.w.now.Add(a.wall) }, Memory: &a.w.publisher.memory,
	}, a.trusted)
	if err != nil {
		a.w.violate("S5", "%s cannot go on from what it trusted: %v", a.name, err)
	}
	a.follower = f
}

// planOf is what a grant's manifest says for the host, as far as the host can
// prove it.
//
// Where nothing is signed it keeps to the rule of trust by version and digest: no
// snapshot older than one seen, no manifest that it does not list.
func (a *agent) planOf(g *plan.Grant, release edition, proof core.Proof) (p fleet.HostPlan, newest digest.Digest, ok bool) {
	m := a.w.docs[g.Manifest]
	if m == nil {
		a.w.violate("S3", "%s is granted %s of a manifest that was never released", a.name, g.ID)
		return fleet.HostPlan{}, "", false
	}
	if proof != core.ProofPlan {
		return *m.HostPlan(a.name), "", true
	}
	if a.follower == nil {
		list := a.w.snapshot(release, m.Header.Channel)
		if release.before(a.seen) || !slices.ContainsFunc(list, func(r fleet.ManifestRef) bool { return r.Digest == g.Manifest }) {
			return fleet.HostPlan{}, "", false
		}
		a.seen = release
		return *m.HostPlan(a.name), list[0].Digest, true
	}
	verified, err := a.follower.OfferedPlan(context.Background(), g.Rollout, g.Manifest, source{a}.carried(g))
	if err != nil {
		a.refused(err)
		return fleet.HostPlan{}, "", false
	}
	a.w.checks.accepts(a, &verified)
	return verified.Host.Value(), verified.Newest, true
}

func (a *agent) refused(err error) {
	if code := trust.CodeOf(err); code == "" {
		a.w.violate("core", "%v", err)
	}
	a.w.checks.refused++
	a.w.trace("%s refuses: %v", a.name, err)
}

// mayClaim verifies the plan of an offer once more: documents move on.
func (a *agent) mayClaim(o *core.Offer) bool {
	if a.follower == nil {
		return true
	}
	p, err := a.follower.Plan(context.Background(), o.Plan.Rollout, o.Plan.Manifest)
	if err != nil {
		a.refused(err)
		return false
	}
	a.w.checks.accepts(a, &p)
	return p.Host.Value().Target == o.Plan.Target
}

// stale says when the newest timestamp is too old to act.
func (a *agent) stale(o *core.Offer) *core.Refused {
	if a.follower == nil {
		return nil
	}
	err := a.follower.Fresh(o.Plan.Channel)
	if err == nil {
		return nil
	}
	return &core.Refused{Rollout: o.Plan.Rollout, Check: string(trust.Stale), Code: string(trust.CodeOf(err)), Detail: err.Error()}
}

// trusts checks what a host remembers of documents as it is made durable: it
// never falls, and nothing that was not signed gets into it.
func (t *checker) trusts(a *agent, s trust.State) {
	for docType, m := range s.Marks { // order-free: each is checked by itself
		was := a.trusted.Marks[docType]
		if m.Epoch < was.Epoch || m.Epoch == was.Epoch && m.Version < was.Version {
			a.w.violate("S5", "%s falls back from version %d of %s to %d", a.name, was.Version, docType, m.Version)
		}
		if docType == trust.TypeRoot {
			t.roots(a, was, m, s.Root)
			continue
		}
		if m.Digest == "" {
			continue // what the token asks for at least
		}
		if v, signed := a.w.publisher.versions[m.Digest]; !signed || v != m.Version {
			a.w.violate("S32", "%s takes version %d of %s, which nobody signed", a.name, m.Version, docType)
		}
	}
	if s.Floor < a.trusted.Floor {
		a.w.violate("S5", "%s takes an earlier time than one that was signed", a.name)
	}
}

// accepts checks a verified plan against what was really signed, and that it is
// listed by the newest snapshot that the host knows.
func (t *checker) accepts(a *agent, p *verify.Plan) {
	hp := p.Host.Value()
	m := a.w.docs[hp.Manifest]
	if m == nil || hp.Host != a.name {
		a.w.violate("S3", "%s accepts a plan for %q in manifest %s", a.name, hp.Host, hp.Manifest.Short())
		return
	}
	if i, ok := m.Leaf(a.name); !ok || m.Leaves[i].Target != hp.Target || m.Header.Rollout() != hp.Rollout {
		a.w.violate("S3", "%s accepts %s in %s, which was not signed for it", a.name, hp.Target.Short(), hp.Rollout)
	}
	if want := m.HostPlan(a.name); want == nil || !reflect.DeepEqual(hp, *want) {
		a.w.violate("S4", "%s accepts a plan in %s that holds what nobody signed: %+v", a.name, hp.Rollout, hp)
	}
	t.current(a, p)
	mark := a.trusted.Marks[fleet.TypeResolved]
	v := edition{mark.Epoch, mark.Version}
	if stamp := a.trusted.Marks[fleet.TypeTimestamp]; stamp.Epoch != v.epoch || stamp.Version != v.version {
		a.w.violate("S6", "%s joins a timestamp of version %d with a snapshot of version %d", a.name, stamp.Version, v.version)
	}
	if !slices.ContainsFunc(a.w.snapshot(v, hp.Channel), func(r fleet.ManifestRef) bool { return r.Digest == hp.Manifest }) {
		a.w.violate("S6", "%s accepts %s, which its snapshot of version %d does not list", a.name, hp.Rollout, v.version)
	}
}
