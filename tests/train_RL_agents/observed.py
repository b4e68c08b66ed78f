"""What a robot observes, by hand."""

import torch


def observations(*objects, goal=(20.0, 0.0), velocity=(2.0, 0.0)):
    """One robot with its bow to the goal."""
    own = torch.tensor([[[*goal, *velocity, 0.0, 400.0, 400.0]]])
    rows = [list(each) for each in objects] + [[0.0] * 5] * (5 - len(objects))
    mask = torch.arange(5) < len(objects)
    return {"self_state": own, "objects_state": torch.tensor(rows)[None, None], "objects_mask": mask[None, None]}
