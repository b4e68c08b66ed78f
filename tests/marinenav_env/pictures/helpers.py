"""Maps that tests draw, and what is found on them; modules that use them need the extra plot."""

from marinenav_env.pictures import drawing


def patches(artists, kind):
    return [each for each in artists if type(each).__name__ == kind]


def axes_of(view):
    axes = drawing.new_figure(4, 4).add_axes((0, 0, 1, 1))
    drawing.draw_map(axes, view, drawing.map_limits(view))
    return axes
