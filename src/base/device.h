/* base/device.h -- a device: the kernels that run there, and what a kernel is told of where it runs.
 *
 * A device is a line in tensor/devices.def. Callers ask the context's device for its kernels (rp__kernels of kernels/kernels.h) and pass each
 * kernel an rp_on. They name no device.
 */
#ifndef RP_DEVICE_H
#define RP_DEVICE_H

/* The last argument of each kernel, or the member `on` of its description. */
typedef struct rp_on {
    int threads;                /* the nominal team: it is part of the bits */
} rp_on;

typedef struct rp_device {
    const char *name;
    const struct rp_kernels *(*kernels)(void);      /* never NULL; an entry that is NULL means: the op runs its reference */
} rp_device;

#endif
