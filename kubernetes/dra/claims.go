package main

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// The driver, its only device, and the capacity that claims share.
const (
	driverName = "fast-memory.tierwise.io"
	deviceName = "fast"
	capacity   = resourceapi.QualifiedName("memory")
)

// Claims are multiples of a block of the daemon's default size, which is a huge page as well. A
// smaller part of one could not be held.
const step = 2 << 20

// Prepared is a claim whose pod runs on this node or is about to.
type Prepared struct {
	// Claim is the claim's namespace and name, for messages.
	Claim string `json:"claim"`
	// Pod is the unique id of its pod.
	Pod types.UID `json:"pod"`
	// Bytes is the floor.
	Bytes int64 `json:"bytes"`
}

// Prepare reads the floor of a claim from its allocation, and the devices for the kubelet.
func prepare(claim *resourceapi.ResourceClaim, node string) (Prepared, []kubeletplugin.Device,
	error) {
	name := claim.Namespace + "/" + claim.Name
	found := Prepared{Claim: name}
	fail := func(format string, words ...any) (Prepared, []kubeletplugin.Device, error) {
		return Prepared{}, nil, fmt.Errorf("claim %s: "+format, append([]any{name}, words...)...)
	}
	if claim.Status.Allocation == nil {
		return fail("found no allocation; allowed: a claim that the scheduler has allocated")
	}
	users := claim.Status.ReservedFor
	if len(users) != 1 || users[0].Resource != "pods" {
		return fail("found %d users; allowed: one pod, because a floor is that of one pod; give "+
			"each pod a claim of its own by resourceClaimTemplateName", len(users))
	}
	found.Pod = users[0].UID
	var devices []kubeletplugin.Device
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != driverName {
			continue
		}
		if result.Pool != node || result.Device != deviceName {
			return fail("found device %s of pool %s; allowed: device %s of pool %s",
				result.Device, result.Pool, deviceName, node)
		}
		// A claim with administrative access consumes nothing.
		if amount, consumes := result.ConsumedCapacity[capacity]; consumes {
			found.Bytes += amount.Value()
		}
		if found.Bytes < 0 {
			return fail("found more bytes than a number of 64 bits can hold")
		}
		devices = append(devices, kubeletplugin.Device{
			Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device,
			ShareID: result.ShareID,
		})
	}
	return found, devices, nil
}

// Floors are the sums of the claims of each pod.
func floors(all map[types.UID]Prepared) map[string]int64 {
	sums := make(map[string]int64, len(all))
	for _, claim := range all {
		sums[string(claim.Pod)] += claim.Bytes
	}
	return sums
}

// Resources describes this node's fast memory to the scheduler: one device, if there is enough of
// it for a claim.
func resources(node string, bytes int64) resourceslice.DriverResources {
	var slice resourceslice.Slice
	// The API wants room for the smallest claim and a step.
	if whole := bytes / step * step; whole >= 2*step {
		quantity := func(bytes int64) *resource.Quantity {
			return resource.NewQuantity(bytes, resource.BinarySI)
		}
		shared := true
		slice.Devices = []resourceapi.Device{{
			Name:                     deviceName,
			AllowMultipleAllocations: &shared,
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{capacity: {
				Value: *quantity(whole),
				RequestPolicy: &resourceapi.CapacityRequestPolicy{
					Default: quantity(step),
					ValidRange: &resourceapi.CapacityRequestPolicyRange{
						Min: quantity(step), Step: quantity(step),
					},
				},
			}},
		}}
	}
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{slice}}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: pool}}
}
