"""Profile of the machine, as the published guide takes it: for an Apple GPU, on whatever machine this is."""

from hybrid_scheduler import HardwareProfiler

profiler = HardwareProfiler(device_type="mps")
profile = profiler.profile_range(sizes=[256, 512, 1024, 2048])
profiler.save_profile("data/profiles/hardware_profile.json")

print(f"time on the CPU over time on the GPU: {profile['cpu_gpu_ratio']:.2f}")
print(f"share of the GPU: {profile['gpu_fraction']:.1%}")
