// Corpus builds Compose files that others wrote into releases, each unchanged and
// in a bundle of its own folder, and counts those that build, and why the others do not:
//
//	go build -o /tmp/steady ./cmd/steady
//	go run ./tools/corpus -steady /tmp/steady FOLDER...
//
// A folder is a checkout, or a part of one. Images may be named by tag, since no
// registry is asked. It prints Markdown; docs/compose-corpora.md keeps what it found.
// It is a package of its own because it is a program that nothing else needs.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const fleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: corpus}
hosts: {host-1: {channel: stable, bundle: app}}
channels: {stable: {rolloutPolicy: all, freshnessWindow: 24h}}
rolloutPolicies: {all: {waves: [{name: all, selector: {all: true}}]}}
allowMovingTags: true
bundles: {app: {path: app}}
`

var (
	composeFile = regexp.MustCompile(`^(docker-)?compose[^/]*\.ya?ml$`)
	quoted      = regexp.MustCompile("\"[^\"]*\"|`[^`]*`")
	number      = regexp.MustCompile(`\b[0-9]+\b`)
)

// result is one file's; reasons are empty for one that is taken.
type result struct {
	name    string
	reasons []string
}

func main() {
	steady := flag.String("steady", "steady", "the command to build with")
	at := flag.Int("at-once", 2, "files at the same time")
	all := flag.Bool("files", false, "name each refused file with all that is said of it")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: corpus [-steady COMMAND] FOLDER...")
		os.Exit(2)
	}
	var every []result
	fmt.Println("| folder | files | taken | refused |\n|---|---|---|---|")
	for _, folder := range flag.Args() {
		results, err := try(*steady, folder, *at)
		if err != nil {
			fmt.Fprintln(os.Stderr, "corpus:", err)
			os.Exit(1)
		}
		refused := refusedOf(results)
		fmt.Printf("| %s | %d | %d | %d |\n", filepath.Base(folder), len(results), len(results)-len(refused), len(refused))
		every = append(every, refused...)
	}
	fmt.Println("\n| files | first reason |\n|---|---|")
	count := map[string]int{}
	for _, r := range every {
		count[shape(r.reasons[0])]++
	}
	for _, words := range slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(count[b]-count[a], strings.Compare(a, b)) }) {
		fmt.Printf("| %d | %s |\n", count[words], words)
	}
	if *all {
		for _, r := range every {
			fmt.Printf("\n%s\n  %s\n", r.name, strings.Join(r.reasons, "\n  "))
		}
	}
}

func refusedOf(results []result) []result {
	return slices.DeleteFunc(slices.Clone(results), func(r result) bool { return len(r.reasons) == 0 })
}

// shape leaves out of a message what is a file's own.
func shape(words string) string {
	return number.ReplaceAllString(quoted.ReplaceAllString(words, "…"), "N")
}

// try builds every Compose file below a folder.
func try(steady, folder string, atOnce int) ([]result, error) {
	var names []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && composeFile.MatchString(d.Name()) {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out, errs := make([]result, len(names)), make([]error, len(names))
	places := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, name := range names {
		places <- struct{}{}
		wg.Go(func() {
			out[i].name = name
			out[i].reasons, errs[i] = build(steady, name)
			<-places
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// build builds one file's folder as a bundle and gives what it is refused for.
func build(steady, name string) ([]string, error) {
	dir, err := os.MkdirTemp("", "corpus-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	app := filepath.Join(dir, "app")
	if err := os.CopyFS(app, os.DirFS(filepath.Dir(name))); err != nil {
		return nil, err
	}
	for path, text := range map[string]string{
		filepath.Join(dir, "fleet.yaml"): fleet, filepath.Join(app, "bundle.yaml"): fmt.Sprintf("compose: %q\n", filepath.Base(name)),
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(steady, "release", "build", dir, "--out", filepath.Join(dir, "release"), "--previous", "none", "-o", "json")
	said, runErr := cmd.Output()
	var answer struct {
		OK       bool `json:"ok"`
		Problems []struct {
			Message string `json:"message"`
			Warning bool   `json:"warning"`
		} `json:"problems"`
	}
	if err := json.Unmarshal(said, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, runErr, err)
	}
	var reasons []string
	for _, p := range answer.Problems {
		if !p.Warning {
			reasons = append(reasons, p.Message)
		}
	}
	if answer.OK != (len(reasons) == 0) {
		return nil, fmt.Errorf("%s: ok is %v with the reasons %q", name, answer.OK, reasons)
	}
	return reasons, nil
}
