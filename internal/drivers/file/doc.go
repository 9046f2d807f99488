// Package file drives a program whose configuration is a JSON, YAML or TOML file in which
// objects stand by name, or in a list. An edit changes the object's part of the file and
// nothing else; the file is replaced whole, and never one that somebody edited meanwhile.
package file
