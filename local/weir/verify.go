package main

import "github.com/weir-limits/weir/local/verify"

func init() { runCommands = append(runCommands, verify.Command()) }
