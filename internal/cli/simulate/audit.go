package simulate

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/logverify"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/trust"
)

type verdict struct {
	OK         bool                `json:"ok"`
	Records    uint64              `json:"records"`
	Head       string              `json:"head"` // as --head takes it
	Roots      int                 `json:"roots"`
	Releases   int                 `json:"releases"`
	Overrides  int                 `json:"overrides"`
	Hosts      int                 `json:"hosts"`
	HostEvents int                 `json:"hostEvents"`
	Promotions int                 `json:"promotions"`
	Findings   []logverify.Finding `json:"findings"`
	// Contradictions are the first of each host; they leave OK as it is.
	Contradictions []logverify.Finding `json:"contradictions"`
}

// Audit returns steady audit.
func Audit(e *command.Env) *cobra.Command {
	a := verbs{e}
	return command.Group(command.GroupMore, "audit", "Take a server's log away, and check it where nobody can touch it",
		"  steady audit export steady.log\n  steady audit verify --file steady.log --root keys/1.root.json", a.exportCmd(), a.verifyCmd())
}

func (a verbs) exportCmd() *cobra.Command {
	var from source
	cmd := &cobra.Command{
		Use: "export FILE", Short: "Write the whole log, with the signed documents that it names, to a file",
		Long: `Writes the log of a server, from its first record, with the signed documents that
it names: what steady audit verify and steady replay read. Take it regularly, and
keep it where the server's administrators cannot write.`,
		Example: "  steady audit export steady.log\n  steady audit export --data /var/lib/steady steady.log",
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := a.history(cmd.Context(), from)
			if err != nil {
				return err
			}
			if err := save(args[0], h); err != nil {
				return err
			}
			a.Printf("%d records and %d documents are in %s\n", len(h.Records), len(h.Blobs), args[0])
			return nil
		},
	}
	a.fromFlags(cmd, &from)
	return cmd
}

func (a verbs) verifyCmd() *cobra.Command {
	var from source
	var root, head string
	cmd := &cobra.Command{
		Use: "verify", Short: "Check a log: its chain, every signature, and the evidence of each promotion",
		Long: `Works the whole log out again and trusts nothing of it but the root: the hash
chain of its records; roots, releases, tokens and overrides by their signatures;
each host's events by the chain that the host signed; and the invariants of
rollouts, so that a wave that was promoted without evidence is found. The first
bad record is named. Code 1 means that something does not hold, code 7 that all
else holds, and what a host reported contradicts itself or the log: it lies, or a
record is missing.

Whoever holds the server can write another log from its beginning, with hosts of
his own. --root and --head tie the log to what you know from elsewhere: the first
root, and an end of the log that an earlier audit printed.`,
		Example: "  steady audit verify\n  steady audit verify --file steady.log --root keys/1.root.json\n  steady audit verify --data data --head 512:9f2c…",
		RunE: func(cmd *cobra.Command, _ []string) error {
			anchor, err := anchorOf(root, head)
			if err != nil {
				return err
			}
			return a.audit(cmd.Context(), from, anchor)
		},
	}
	a.fromFlags(cmd, &from)
	f := cmd.Flags()
	f.StringVar(&root, "root", "", "the first root that must have been trusted: its file, or the digest of its payload")
	f.StringVar(&head, "head", "", "an end of the log that was seen before, as SEQ:HASH")
	return a.PrintsData(cmd)
}

func (a verbs) audit(ctx context.Context, from source, anchor logverify.Anchor) error {
	h, err := a.history(ctx, from)
	if err != nil {
		return err
	}
	r, err := logverify.Verify(h, anchor)
	if err != nil {
		return exit.Bad(err)
	}
	v := verdict{OK: len(r.Findings) == 0, Records: r.Head.Seq, Head: fmt.Sprintf("%d:%x", r.Head.Seq, r.Head.Hash), Roots: r.Roots, Releases: r.Releases,
		Overrides: r.Overrides, Hosts: r.Hosts, HostEvents: r.HostEvents, Promotions: r.Promotions, Findings: r.Findings, Contradictions: r.Contradictions}
	if err := a.Print(v, func() error { a.showVerdict(v, anchor); return nil }); err != nil {
		return err
	}
	switch {
	case !v.OK:
		return exit.Silently(exit.Failed)
	case len(v.Contradictions) > 0:
		return exit.Silently(exit.Contradicted)
	}
	return nil
}

func (a verbs) showVerdict(v verdict, anchor logverify.Anchor) {
	for _, f := range v.Contradictions {
		a.Printf("%s contradicts itself or the log: %s\n", Whose(f.Host, f.Node), f.Message)
	}
	for _, f := range v.Findings {
		a.Printf("%d: %s: %s\n", f.Seq, f.Check, f.Message)
	}
	if !v.OK {
		a.Printf("The first bad record is %d\n", v.Findings[0].Seq)
		return
	}
	a.Printf(Verdict(len(v.Contradictions))+": %s, %s, %s, %s, %s with %s that they signed, %s\n",
		prose.Count(v.Records, "record"), prose.Count(v.Roots, "root"), prose.Count(v.Releases, "release"), prose.Count(v.Overrides, "override"),
		prose.Count(v.Hosts, "host"), prose.Count(v.HostEvents, "event"), prose.Count(v.Promotions, "promotion"))
	a.Printf("Keep this for the next audit: --head %s\n", v.Head)
	if anchor.Root == "" {
		a.Printf("The first root is the log's own, which nothing proves; give yours with --root\n")
	}
}

// anchorOf reads what ties a log to the outside.
func anchorOf(root, head string) (a logverify.Anchor, err error) {
	if root != "" {
		if a.Root, err = digest.Parse(root); err != nil {
			raw, failed := os.ReadFile(root)
			if failed != nil {
				return a, exit.Badf("--root %s: neither a digest nor a file that can be read: %v", root, failed)
			}
			env, failed := trust.ParseEnvelope(raw)
			if failed != nil {
				return a, exit.Badf("--root %s: %v", root, failed)
			}
			a.Root = digest.Of(env.Payload)
		}
	}
	if head == "" {
		return a, nil
	}
	seq, hash, _ := strings.Cut(head, ":")
	n, err := strconv.ParseUint(seq, 10, 64)
	sum, bad := hex.DecodeString(hash)
	if err != nil || bad != nil || n == 0 || len(sum) != len(a.Head.Hash) {
		return a, exit.Badf("--head %s: expected SEQ:HASH as an audit prints it", head)
	}
	a.Head = store.Head{Seq: n, Hash: [32]byte(sum)}
	return a, nil
}

// Whose begins a sentence about a contradiction of a host, or of a node.
func Whose(host, node string) string {
	if host != "" {
		return "Host " + host
	}
	return "Node " + node
}

// Verdict begins the last line of a check that found nothing wrong but what so many
// hosts contradict.
func Verdict(contradictions int) string {
	if contradictions > 0 {
		return "All else holds"
	}
	return "All holds"
}
