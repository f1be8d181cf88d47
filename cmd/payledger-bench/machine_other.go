//go:build !linux

package main

import "time"

func waitUntil(at time.Time) { <-time.After(time.Until(at)) }
