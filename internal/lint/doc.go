// Package lint holds the house rules as code: what the pure core may not do,
// which way imports point, how large a file may grow, what a document may link
// to. Its tests run every rule over the tree, and run each rule over examples
// that break it, so that a rule is known to fail. It has no code but its tests.
package lint
