package main

import "github.com/weir-limits/weir/local/console"

func init() { newConsole = console.New }
