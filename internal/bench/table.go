package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/cli/term"
)

// columns is the width that a report fits in.
const columns = 100

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	checks := "Agents take documents as they are; --verify makes them check signatures as real ones do."
	if r.Verified {
		checks = "Agents check every signature, as real ones do."
	}
	fmt.Fprintf(w, "%d simulated hosts over mutual TLS 1.3 and HTTP/2, one server process, %d CPUs for both.\n%s\n", r.Hosts, r.CPUs, checks)
	fmt.Fprintf(w, "Activating takes no time: that it began is reported with its outcome.\n\n")
	if err := r.phases(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nAt rest for %.0f s: server %.2f %% of a core, RSS %.0f MiB, PSS %.0f MiB; agents %.2f %%, RSS %.0f MiB.\n",
		r.Idle.Seconds, r.Idle.ServerPercent, mib(r.Idle.ServerRSS), mib(r.Idle.ServerPSS), r.Idle.AgentsPercent, mib(r.Idle.AgentsRSS))
	fmt.Fprintf(w, "%d requests came in that time; %.0f are the mean over the 60 s of a long-poll and a heartbeat.\n",
		r.Idle.Requests, 2*float64(r.Hosts)*r.Idle.Seconds/60)
	r.viewed(w)
	r.forecast(w)
	r.storm(w)
	r.soak(w)
	r.troubles(w)
	if busy := r.busiest(); busy > quiet {
		fmt.Fprintf(w, "Others used up to %.0f %% of a core meanwhile: seconds are too long, CPU times hold.\n", busy)
	}
	fmt.Fprintln(w)
	return r.comparison(w)
}

func (r *Report) soak(w io.Writer) {
	if r.Soak == nil {
		return
	}
	fmt.Fprintf(w, "\n%d changes one after the other, the server killed in every tenth:\n", len(r.Soak.Changes))
	for i, t := range []Third{r.Soak.Second, r.Soak.Last} {
		fmt.Fprintf(w, "  %s third: %.2f s, server CPU %.2f ms per host, PSS %.0f MiB, %d goroutines; a change adds %.2f MiB of log and %.2f MiB of blobs\n",
			[]string{"second", "last"}[i], t.Seconds, t.CPU, mib(t.PSS), t.Goroutines, mib(t.LogPerChange), mib(t.BlobsPerChange))
	}
}

// quiet is how much of a core others may use, in percent, before it is worth a
// word.
const quiet = 20

// busiest is the most that others used in a phase with a time to measure.
func (r *Report) busiest() float64 {
	most := r.Enrol.OthersPercent
	for _, c := range append(slices.Clone(r.Plain.Rounds), r.Policy.Rounds...) {
		most = max(most, c.OthersPercent)
	}
	return most
}

func (r *Report) phases(w io.Writer) error {
	row := func(name string, s Spent, seconds float64, half string) []string {
		return []string{name, fmt.Sprintf("%.2f", seconds), half, fmt.Sprintf("%.2f", s.ServerMillisPerHost), fmt.Sprintf("%.2f", s.AgentsMillisPerHost),
			fmt.Sprintf("%.1f", float64(s.Requests)/float64(r.Hosts)), fmt.Sprintf("%.0f", s.RequestsPerSecond), fmt.Sprintf("%.0f", s.OthersPercent)}
	}
	half := func(c Change) string { return fmt.Sprintf("%.2f", c.HalfSeconds) }
	rows := [][]string{
		row(fmt.Sprintf("enrol, %d at once", r.Enrol.AtOnce), r.Enrol.Spent, r.Enrol.Seconds, ""),
		row("first release", r.First.Spent, r.First.Seconds, half(r.First)),
	}
	for i := range r.Plain.Rounds {
		rows = append(rows, row("change", r.Plain.Rounds[i].Spent, r.Plain.Rounds[i].Seconds, half(r.Plain.Rounds[i])))
		if i < len(r.Policy.Rounds) {
			rows = append(rows, row("change, policy", r.Policy.Rounds[i].Spent, r.Policy.Rounds[i].Seconds, half(r.Policy.Rounds[i])))
		}
	}
	rows = append(rows, row("floor: HTTP/2, mutual TLS", r.Floor.HTTP, r.Floor.HTTP.Seconds, ""),
		row("floor: and synced appends", r.Floor.Synced, r.Floor.Synced.Seconds, ""))
	err := term.Rows(w, []string{"phase", "seconds", "half", "server ms/host", "agent ms/host", "req/host", "req/s", "others %"}, rows)
	fmt.Fprintf(w, "The policy:%s.\n", describePolicy(true))
	fmt.Fprintf(w, "The floor is a bare server that %d times a host answers as many bytes: %d to it, %d from it.\n", r.Floor.Requests, r.Floor.Sent, r.Floor.Received)
	fmt.Fprintf(w, "A change takes %.1f times its time and %.1f times its CPU.\n", r.Floor.SecondsRatio, r.Floor.ServerRatio)
	return err
}

func (r *Report) troubles(w io.Writer) {
	t := r.Troubles
	if t.Errors+t.Declined+t.Refused+t.Repeated == 0 {
		return
	}
	fmt.Fprintf(w, "Agents went on from %d errors, %d declined grants, %d refused claims, %d offers repeated at once.\n", t.Errors, t.Declined, t.Refused, t.Repeated)
	for _, line := range t.First {
		fmt.Fprintln(w, term.Cut("  "+line, columns))
	}
}

func (r *Report) comparison(w io.Writer) error {
	rows := make([][]string, len(r.Compared))
	for i, c := range r.Compared {
		met := "no"
		if c.Met {
			met = "yes"
		}
		peer := fmt.Sprintf("%s at %d", figure(c.Peer, c.Unit), c.PeerHosts)
		rows[i] = []string{c.What, figure(c.Here, c.Unit), peer, "≤ " + figure(c.Target, c.Unit), met}
	}
	if err := term.Rows(w, []string{"what", "here", peerName, "target", "met"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, strings.Join(term.Wrap(r.Peer, columns), "\n"))
	return err
}
