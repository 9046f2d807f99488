package release

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/trust"
)

// SignOptions are the keys of a signing.
type SignOptions struct {
	Release   []trust.Signer // snapshot and manifests
	Timestamp []trust.Signer
	// Roots is the chain of root envelopes from version 1 on.
	Roots [][]byte
	Now   clock.Instant // wall time, which the timestamp will state
}

// Sign signs what is not signed yet in the release folder dir: every payload is
// replaced by its envelope. A manifest that an earlier release signed keeps its
// envelope, unless its keys are not those of o; so does the timestamp. Then it verifies
// the whole, and only then the folder changes, at once.
func Sign(dir string, o SignOptions) (*Verified, error) {
	if len(o.Release) == 0 || len(o.Timestamp) == 0 || len(o.Roots) == 0 {
		return nil, errors.New("signing needs the release key, the timestamp key and the fleet's roots; steady keys init makes them")
	}
	names, err := namesIn(dir)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, ResolvedPath) && !slices.Contains(names, payloadName(ResolvedPath)) {
		return nil, fmt.Errorf("%s is no release folder: expected %s; run steady release build first", dir, payloadName(ResolvedPath))
	}
	root, err := trust.ReadRoot(o.Roots[len(o.Roots)-1])
	if err != nil {
		return nil, err
	}
	if err := sameEpoch(dir, root); err != nil {
		return nil, err
	}
	return staging{dir: dir, fill: copying(dir), change: o.sign}.run()
}

// sign is Sign in a folder that nobody else sees.
func (o SignOptions) sign(dir string) (*Verified, error) {
	names, err := namesIn(dir)
	if err != nil {
		return nil, err
	}
	if err := addRoots(dir, o.Roots); err != nil {
		return nil, err
	}
	// Children first: a signed parent never names what is not signed.
	slices.SortStableFunc(names, func(a, b string) int { return signingOrder(a) - signingOrder(b) })
	for _, name := range names {
		if err := signFile(dir, name, o); err != nil {
			return nil, fmt.Errorf("sign %s: %w", name, err)
		}
	}
	state, err := Trust(o.Roots[0])
	if err != nil {
		return nil, err
	}
	return VerifyDir(dir, state, o.Now)
}

func addRoots(dir string, roots [][]byte) error {
	for i, root := range roots {
		if err := disk.Replace(filepath.Join(dir, RootPath(uint64(i+1))), root, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sameEpoch refuses a release of an epoch that the newest root ended, before
// anything of it is changed.
func sameEpoch(dir string, root trust.Root) error {
	epoch, err := EpochOf(dir)
	if err == nil && epoch < root.Epoch {
		err = fmt.Errorf("the release is of key epoch %d, which root version %d ended; run steady release build, then sign what it writes", epoch, root.Version)
	}
	return err
}

// EpochOf reads the key epoch that the release in a folder says it is of. It
// checks no signature.
func EpochOf(dir string) (uint64, error) {
	r, err := Snapshot(dir)
	return r.Epoch, err
}

// Named is the snapshot of a release, with the digest that names it.
type Named struct {
	fleet.Resolved
	Digest digest.Digest
}

// Snapshot reads the snapshot of the release in a folder. It checks no signature.
func Snapshot(dir string) (n Named, err error) {
	raw, err := payload(func(name string) ([]byte, error) { return readIn(dir, name) }, ResolvedPath)
	if err != nil {
		return n, err
	}
	if err := trust.Decode(raw, trust.MaxEnvelope, &n.Resolved); err != nil {
		return n, fmt.Errorf("%s: %w", ResolvedPath, err)
	}
	n.Digest = digest.Of(raw)
	return n, nil
}

// OriginOf reads the origin of the release in a folder, nil where that does not tell it.
// It checks no signature.
func OriginOf(dir string) (*fleet.Origin, error) {
	var r fleet.Roster
	raw, err := readIn(dir, RosterPath)
	if err == nil {
		err = trust.Decode(raw, trust.MaxList, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", RosterPath, err)
	}
	return r.Origin, nil
}

func signingOrder(name string) int {
	switch envelopeOf(name) {
	case TimestampPath:
		return 2
	case ResolvedPath:
		return 1
	}
	return 0
}

func envelopeOf(name string) string {
	if isPayload(name) {
		return strings.TrimSuffix(name, payloadEnd) + ".json"
	}
	return name
}

// documentType returns the type of the envelope under a file name, or "".
func documentType(envelope string) string {
	switch {
	case envelope == TimestampPath:
		return fleet.TypeTimestamp
	case envelope == ResolvedPath:
		return fleet.TypeResolved
	case filepath.Dir(envelope) == "rollouts" && !strings.HasSuffix(envelope, leavesEnd):
		return fleet.TypeManifest
	}
	return ""
}

func signFile(dir, name string, o SignOptions) error {
	envelope := envelopeOf(name)
	docType := documentType(envelope)
	if docType == "" {
		return nil
	}
	raw, err := readIn(dir, name)
	if err != nil {
		return err
	}
	signers, stamped := o.Release, docType == fleet.TypeTimestamp
	if stamped {
		signers = o.Timestamp
	}
	raise := uint64(0)
	if !isPayload(name) {
		e, err := trust.ParseEnvelope(raw)
		if err != nil || signedBy(e, signers) {
			return err
		}
		raw, raise = e.Payload, 1 // the key was replaced
	}
	if stamped {
		if raw, err = restamp(raw, o.Now, raise); err != nil {
			return err
		}
	}
	env, err := trust.Sign(docType, raw, signers...)
	if err != nil {
		return err
	}
	if err := disk.Replace(filepath.Join(dir, filepath.FromSlash(envelope)), env, 0o644); err != nil {
		return err
	}
	if isPayload(name) {
		return os.Remove(filepath.Join(dir, filepath.FromSlash(name)))
	}
	return nil
}

func signedBy(e trust.Envelope, signers []trust.Signer) bool {
	for _, s := range signers {
		if !slices.ContainsFunc(e.Signatures, func(sig trust.Signature) bool { return sig.KeyID == s.KeyID() }) {
			return false
		}
	}
	return true
}

// restamp sets a timestamp payload's time and raises its version.
func restamp(payload []byte, now clock.Instant, raise uint64) ([]byte, error) {
	var t fleet.Timestamp
	if err := trust.Decode(payload, trust.MaxEnvelope, &t); err != nil {
		return nil, err
	}
	t.IssuedAt, t.Version = now, t.Version+raise
	return trust.Canonical(t)
}

// RefreshOptions say what is refreshed and with what.
type RefreshOptions struct {
	// From is the folder of the release if it is another one than the one that is
	// written.
	From string
	// State is what the release must verify against.
	State trust.State
	// Roots is the chain of roots that goes with it; empty leaves the folder's own.
	Roots   [][]byte
	Now     clock.Instant
	Signers []trust.Signer
}

// Refresh signs a new timestamp over the same snapshot, one version up, and puts the
// release into dir. It must verify before and does so after; only then the folder
// changes, at once.
func Refresh(dir string, o RefreshOptions) (*Verified, error) {
	if len(o.Signers) == 0 {
		return nil, errors.New("refreshing needs the timestamp key; steady keys init makes one")
	}
	from := dir
	if o.From != "" {
		if from = o.From; from != dir {
			if err := replaceable(dir); err != nil {
				return nil, err
			}
		}
	}
	v, err := VerifyDir(from, o.State, o.Now)
	if err != nil {
		return nil, err
	}
	if err := o.replacedKeys(from, v.Verifier.RootDocument()); err != nil {
		return nil, err
	}
	return staging{dir: dir, fill: copying(from), change: o.refresh}.run()
}

func (o RefreshOptions) refresh(dir string) (*Verified, error) {
	if err := addRoots(dir, o.Roots); err != nil {
		return nil, err
	}
	env, err := readIn(dir, TimestampPath)
	if err != nil {
		return nil, err
	}
	if env, err = RefreshTimestamp(env, o.Now, o.Signers...); err != nil {
		return nil, err
	}
	if err := disk.Replace(filepath.Join(dir, TimestampPath), env, 0o644); err != nil {
		return nil, err
	}
	return VerifyDir(dir, o.State, o.Now)
}

// replacedKeys refuses, with what to do, where the newest root, of the release or of the
// options, names other keys than those that the release has, or that it would get.
func (o RefreshOptions) replacedKeys(dir string, root trust.Root) error {
	if uint64(len(o.Roots)) > root.Version {
		var err error
		if root, err = trust.ReadRoot(o.Roots[len(o.Roots)-1]); err != nil {
			return err
		}
	}
	if err := sameEpoch(dir, root); err != nil {
		return err
	}
	for _, s := range o.Signers {
		if !slices.Contains(root.Roles[trust.RoleTimestamp].KeyIDs, s.KeyID()) {
			return fmt.Errorf("the timestamp key %s is not one that root version %d names: it was replaced, or is of another fleet; name the folder of the present keys with --keys", s.KeyID(), root.Version)
		}
	}
	raw, err := readIn(dir, ResolvedPath)
	if err != nil {
		return err
	}
	e, err := trust.ParseEnvelope(raw)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(e.Signatures, func(sig trust.Signature) bool {
		return slices.Contains(root.Roles[trust.RoleRelease].KeyIDs, sig.KeyID)
	}) {
		return fmt.Errorf("the release was signed with a key that root version %d has replaced: sign it with the new one first: steady release sign, then steady release push", root.Version)
	}
	return nil
}

// RefreshTimestamp makes the next version of a timestamp envelope. The caller
// has verified the old one.
func RefreshTimestamp(env []byte, now clock.Instant, signers ...trust.Signer) ([]byte, error) {
	e, err := trust.ParseEnvelope(env)
	if err != nil {
		return nil, err
	}
	payload, err := restamp(e.Payload, now, 1)
	if err != nil {
		return nil, err
	}
	return trust.Sign(fleet.TypeTimestamp, payload, signers...)
}

// VerifyDir is Verify for a release folder.
func VerifyDir(dir string, state trust.State, now clock.Instant) (*Verified, error) {
	root, fsys, err := Open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	v, err := Verify(fsys, state, now)
	if err != nil {
		return nil, err
	}
	v.fsys, v.dir = os.DirFS(dir), dir
	return v, nil
}

func namesIn(dir string) ([]string, error) {
	root, fsys, err := Open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := fileNames(fsys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return names, nil
}

func readIn(dir, name string) ([]byte, error) {
	root, fsys, err := Open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return readFile(fsys, name)
}
