package main

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// The extended resource. A request counts whole units, so that it is in MiB.
const (
	extendedResource = "tierwise.io/fast-memory"
	unit             = 1 << 20
)

// A node that was made again lacks the resource for so long at most. A patch that changes nothing
// costs the API server no write.
const patchAgain = time.Minute

// NodeStatus keeps the extended resource in the status of this node.
type NodeStatus struct {
	client kubernetes.Interface
	node   string
	daemon Daemon
}

// Run patches the status at each change, and takes the resource back at the end.
func (n *NodeStatus) run(ctx context.Context, interval time.Duration) error {
	patched, at := int64(-1), time.Time{}
	problem := ""
	for ticks := time.Tick(interval); ctx.Err() == nil; {
		claims, err := n.daemon.exchange(ctx, nil)
		whole := claims.Capacity / unit
		if err == nil && (whole != patched || time.Since(at) > patchAgain) {
			if err = n.patch(ctx, &whole); err == nil {
				patched, at = whole, time.Now()
			}
		}
		// Each problem is logged once.
		if err == nil {
			problem = ""
		} else if err.Error() != problem && ctx.Err() == nil {
			problem = err.Error()
			klog.Error(problem)
		}
		select {
		case <-ctx.Done():
		case <-ticks:
		}
	}
	if patched < 0 {
		return nil
	}
	// The context has ended.
	last, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return n.patch(last, nil)
}

// Patch writes the whole MiB; nothing removes the resource.
func (n *NodeStatus) patch(ctx context.Context, whole *int64) error {
	patch, err := statusPatch(whole)
	if err != nil {
		return err
	}
	_, err = n.client.CoreV1().Nodes().Patch(ctx, n.node, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	return err
}

// StatusPatch returns the patch of a node's status. The kubelet computes the allocatable amount from
// the capacity; written as well, the scheduler knows it at once.
func statusPatch(whole *int64) ([]byte, error) {
	var amount any
	if whole != nil {
		amount = strconv.FormatInt(*whole, 10)
	}
	list := map[string]any{extendedResource: amount}
	return json.Marshal(map[string]any{
		"status": map[string]any{"capacity": list, "allocatable": list},
	})
}
