// Command volume-resizer grants what claims of the btrfs driver ask for beyond what they have. A subvolume has no size of its own,
// so nothing happens on the disk; only the claim and its volume say the new capacity.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const driverName = "btrfs.csi.ramet.test"

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	factory := informers.NewSharedInformerFactory(client, 0)
	_, err = factory.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(claim any) { grant(client, claim.(*corev1.PersistentVolumeClaim)) },
		UpdateFunc: func(_, claim any) { grant(client, claim.(*corev1.PersistentVolumeClaim)) },
	})
	if err != nil {
		log.Fatal(err)
	}
	factory.Start(context.Background().Done())
	select {}
}

func grant(client kubernetes.Interface, claim *corev1.PersistentVolumeClaim) {
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	has := claim.Status.Capacity[corev1.ResourceStorage]
	if claim.Status.Phase != corev1.ClaimBound || asked.Cmp(has) <= 0 {
		return
	}
	background := context.Background()
	volume, err := client.CoreV1().PersistentVolumes().Get(background, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil || volume.Spec.CSI == nil || volume.Spec.CSI.Driver != driverName {
		return
	}
	capacity := corev1.ResourceList{corev1.ResourceStorage: asked}
	_, err = client.CoreV1().PersistentVolumes().Patch(
		background, volume.Name, types.MergePatchType, merge("spec", capacity, nil), metav1.PatchOptions{})
	if err == nil {
		_, err = client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(background, claim.Name, types.MergePatchType,
			merge("status", capacity, []corev1.PersistentVolumeClaimCondition{}), metav1.PatchOptions{}, "status")
	}
	log.Printf("claim %s/%s from %s to %s, error: %v", claim.Namespace, claim.Name, has.String(), asked.String(), err)
}

func merge(part string, capacity corev1.ResourceList, conditions []corev1.PersistentVolumeClaimCondition) []byte {
	fields := map[string]any{"capacity": capacity}
	if conditions != nil {
		fields["conditions"] = conditions
	}
	patch, err := json.Marshal(map[string]any{part: fields})
	if err != nil {
		log.Fatal(err)
	}
	return patch
}
