package keys

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/trust"
)

type rootView struct {
	Fleet   string        `json:"fleet"`
	Version uint64        `json:"version"`
	Epoch   uint64        `json:"epoch"`
	Issued  clock.Instant `json:"issued"`
	Expires clock.Instant `json:"expires"`
	Reason  string        `json:"reason,omitempty"`
	Roles   []roleView    `json:"roles"`
	Waiting string        `json:"waiting,omitempty"` // file of a root that waits for signatures
}

type roleView struct {
	Role      trust.Role `json:"role"`
	Threshold int        `json:"threshold"`
	Keys      []keyView  `json:"keys"`
}

type keyView struct {
	ID   string `json:"id"`
	File string `json:"file,omitempty"` // of its private key, when the folder holds it
}

func (a verbs) showCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show", Short: "Show the roles, their keys, the epoch and when the root expires",
		Long:    "Verifies the chain of roots in KEYS and shows the newest: which keys count for each\nrole, how many must sign, and which private keys are here.",
		Example: "  steady keys show\n  steady keys show --keys /media/usb/keys -o json",
	}
	return a.withKeys(cmd, func(dir string, _ []string) error {
		v, err := keyring.Newest(dir)
		if err != nil {
			return refused(err)
		}
		return a.showNewest(dir, v)
	})
}

func (a verbs) showNewest(dir string, v trust.Verifier) error {
	view := viewRoot(v.RootDocument(), stored(dir))
	view.Waiting = waits(dir)
	return a.Print(view, func() error {
		a.Printf("Root of fleet %s: version %d, epoch %d, %s\n", view.Fleet, view.Version, view.Epoch, a.lasts(view.Expires))
		if view.Reason != "" {
			a.Printf("Reason: %s\n", term.Printable(view.Reason))
		}
		var rows [][]string
		for _, r := range view.Roles {
			for i, k := range r.Keys {
				row := []string{"", "", k.ID[:12], k.File}
				if i == 0 {
					row[0], row[1] = string(r.Role), fmt.Sprintf("%d of %d", r.Threshold, len(r.Keys))
				} else {
					row[0], row[1] = " ", " "
				}
				rows = append(rows, row)
			}
		}
		if err := a.Table([]string{"role", "must sign", "key", "private key here"}, rows); err != nil {
			return err
		}
		if view.Waiting != "" {
			a.Printf("%s waits for signatures: steady keys root show\n", view.Waiting)
		}
		return nil
	})
}

// lasts says until when a root is good.
func (a verbs) lasts(expires clock.Instant) string {
	item := warning.Items([]warning.Fact{{Kind: warning.Root, Ends: expires}}, a.Wall())[0]
	return cmp.Or(item.Warning(), "good until "+expires.String())
}

func viewRoot(r trust.Root, here map[string]string) rootView {
	view := rootView{Fleet: r.Fleet, Version: r.Version, Epoch: r.Epoch, Issued: r.IssuedAt, Expires: r.Expires, Reason: r.Reason}
	for _, role := range trust.Roles() {
		rv := roleView{Role: role, Threshold: r.Roles[role].Threshold}
		for _, id := range r.Roles[role].KeyIDs {
			rv.Keys = append(rv.Keys, keyView{ID: id, File: here[id]})
		}
		view.Roles = append(view.Roles, rv)
	}
	return view
}

type draftView struct {
	File     string        `json:"file"`
	Version  uint64        `json:"version"`
	Epoch    uint64        `json:"epoch"`
	Expires  clock.Instant `json:"expires"`
	Reason   string        `json:"reason,omitempty"`
	Digest   digest.Digest `json:"digest"`
	Before   *trust.Quorum `json:"before,omitempty"` // a first root has none before it
	After    trust.Quorum  `json:"after"`
	Complete bool          `json:"complete"`
	Changes  []string      `json:"changes"`
}

func viewDraft(p keyring.Pending) draftView {
	d := p.Draft
	view := draftView{File: p.File, Version: d.Root.Version, Epoch: d.Root.Epoch, Expires: d.Root.Expires, Reason: d.Root.Reason,
		Digest: d.Digest, After: d.After, Complete: d.Complete(), Changes: []string{}}
	if !d.First() {
		view.Before = &d.Before
	}
	return view
}

// printDraft says how a root stands after a change of it, and what to do next.
func (a verbs) printDraft(p keyring.Pending, next string) error {
	view := viewDraft(p)
	return a.Print(view, func() error {
		for _, role := range trust.Roles() {
			if id := p.Made[role]; id != "" {
				a.Printf("Made a new %s key, %s\n", role, id[:12])
			}
		}
		if err := a.showDraft(view); err != nil {
			return err
		}
		if next != "" {
			a.Printf("Next: %s\n", next)
		}
		return nil
	})
}

func (a verbs) showDraft(d draftView) error {
	a.Printf("Root version %d, epoch %d, good until %s\n", d.Version, d.Epoch, d.Expires)
	a.Printf("  digest:  %s\n", d.Digest)
	if d.Before == nil && !d.Complete {
		a.Printf("  first:   no root before says that it is the right one; compare its digest with the other holders\n")
	}
	if d.Reason != "" {
		a.Printf("  reason:  %s\n", term.Printable(d.Reason))
	}
	for _, c := range d.Changes {
		a.Printf("  change:  %s\n", c)
	}
	for _, q := range []*trust.Quorum{d.Before, &d.After} {
		if q == nil {
			continue
		}
		a.Printf("  version %d: %d of %d needed signatures%s\n", q.Version, len(q.Signed), q.Need, ids(*q))
	}
	if d.Complete {
		a.Printf("Complete: %s\n", d.File)
		return nil
	}
	a.Printf("Waits in %s. Next: copy it to a holder who has not signed, steady keys root sign FILE --keys FOLDER,\nand bring it back: steady keys root add-signature FILE\n", d.File)
	return nil
}

func ids(q trust.Quorum) string {
	var signed, left []string
	for _, id := range q.Keys {
		if slices.Contains(q.Signed, id) {
			signed = append(signed, id[:12])
		} else {
			left = append(left, id[:12])
		}
	}
	out := ""
	if len(signed) > 0 {
		out += "; signed by " + strings.Join(signed, ", ")
	}
	if len(left) > 0 && !q.Met() {
		out += "; not yet by " + strings.Join(left, ", ")
	}
	return out
}

func shorts(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id[:12]
	}
	return out
}

// changes says what a root changes of the one before; of a first one, what it says.
func changes(old, next trust.Root) []string {
	out := []string{}
	if old.Version == 0 {
		for _, role := range trust.Roles() {
			is := next.Roles[role]
			out = append(out, fmt.Sprintf("role %s: %d of %s", role, is.Threshold, strings.Join(shorts(is.KeyIDs), ", ")))
		}
		return out
	}
	if next.Epoch != old.Epoch {
		out = append(out, fmt.Sprintf("the key epoch rises from %d to %d: everything signed before ends", old.Epoch, next.Epoch))
	}
	for _, role := range trust.Roles() {
		was, is := old.Roles[role], next.Roles[role]
		for _, id := range is.KeyIDs {
			if !slices.Contains(was.KeyIDs, id) {
				out = append(out, fmt.Sprintf("role %s gets key %s", role, id[:12]))
			}
		}
		for _, id := range was.KeyIDs {
			if !slices.Contains(is.KeyIDs, id) {
				out = append(out, fmt.Sprintf("role %s loses key %s", role, id[:12]))
			}
		}
		if was.Threshold != is.Threshold {
			out = append(out, fmt.Sprintf("role %s needs %d signatures, not %d", role, is.Threshold, was.Threshold))
		}
	}
	if next.Expires != old.Expires {
		out = append(out, fmt.Sprintf("the root expires %s, not %s", next.Expires, old.Expires))
	}
	return command.NonNil(out)
}
