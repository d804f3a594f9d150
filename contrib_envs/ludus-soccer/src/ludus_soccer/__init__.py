"""MuJoCo soccer of dm_control for teams of any size, with the rewards and interfaces of Arena [Arena §A.6]."""
