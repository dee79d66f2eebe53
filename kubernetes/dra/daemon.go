package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Time limit of an exchange with the daemon, which answers between two rounds. The kubelet waits
// longer for a pod's claims.
const patience = 5 * time.Second

// Most bytes of an answer: many times the claims of a node.
const maxAnswer = 4 << 20

// Daemon is tierwised, at its socket of claims (crates/tierwised/src/control).
type Daemon struct {
	socket string
}

// Claims are those that hold in the daemon.
type Claims struct {
	// Capacity is the fast memory that floors of pods may have, in bytes.
	Capacity int64 `json:"capacity_bytes"`
	// Floors are the claimed floors by the pods' unique ids, in bytes.
	Floors map[string]int64 `json:"floors"`
}

// ErrRefused is the daemon's answer to a command that it does not execute.
var ErrRefused = errors.New("tierwised refuses")

// Exchange sets all claims and returns those that hold. Without floors it only asks.
func (d Daemon) exchange(ctx context.Context, floors map[string]int64) (Claims, error) {
	command := map[string]any{"command": "claims"}
	if floors != nil {
		command["floors"] = floors
	}
	line, err := json.Marshal(command)
	if err != nil {
		return Claims{}, err
	}
	var reply struct {
		Ok     bool    `json:"ok"`
		Error  string  `json:"error"`
		Claims *Claims `json:"claims"`
	}
	answer, err := d.ask(ctx, append(line, '\n'))
	if err != nil {
		return Claims{}, fmt.Errorf("%s: no answer of tierwised: %w", d.socket, err)
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return Claims{}, fmt.Errorf("%s: not an answer of tierwised: %w", d.socket, err)
	}
	switch {
	case !reply.Ok:
		return Claims{}, fmt.Errorf("%s: %w: %s", d.socket, ErrRefused, reply.Error)
	case reply.Claims == nil || reply.Claims.Capacity < 0:
		return Claims{}, fmt.Errorf("%s: tierwised returns no claims", d.socket)
	}
	return *reply.Claims, nil
}

func (d Daemon) ask(ctx context.Context, line []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	connection, err := new(net.Dialer).DialContext(ctx, "unix", d.socket)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	deadline, _ := ctx.Deadline()
	if err := connection.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if _, err := connection.Write(line); err != nil {
		return nil, err
	}
	return bufio.NewReader(io.LimitReader(connection, maxAnswer)).ReadBytes('\n')
}
