"""The most bytes that PyTorch's CPU allocator has live while a function runs."""
import torch


def allocator_peak(run, live=0):
    """From the allocator's events in order, `live` being there already. Scratch that kernel libraries take for themselves is not seen."""
    peak = live
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    memory = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(memory, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak
