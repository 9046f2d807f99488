package main

type idle struct{}

func (*idle) text() string { return "" }

func (b *bench) idle() {}
