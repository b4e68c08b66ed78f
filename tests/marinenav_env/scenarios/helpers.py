"""Scenario files of other programs, and how tests write them."""

import json
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "data"
GENERATED = json.loads((SAMPLES / "dnv_generated.json").read_text())
INPUT = json.loads((SAMPLES / "dnv_input.json").read_text())
XML = """<?xml version="1.0" encoding="UTF-8"?>
<commonOcean timeStepSize="10.0" commonOceanVersion="2022a" author="a" affiliation="b" source="c" benchmarkID="ZAM_1"
 date="2022-05-01">
  <scenarioTags><open_sea/></scenarioTags>
  <waters id="1"/>
  <staticObstacle id="2"><type>unknown</type>
    <shape><circle><radius>50.0</radius><center><x>100.0</x><y>0.0</y></center></circle></shape>
    <initialState><position><point><x>400.0</x><y>300.0</y></point></position>
      <orientation><exact>0.0</exact></orientation><time><exact>0</exact></time></initialState>
  </staticObstacle>
  <staticObstacle id="3"><type>unknown</type><shape><rectangle><length>5</length><width>2</width></rectangle></shape>
    <initialState><position><point><x>0</x><y>0</y></point></position></initialState></staticObstacle>
  <dynamicObstacle id="4"><type>motorvessel</type>
    <shape><rectangle><length>50</length><width>9</width></rectangle></shape>
    <initialState><position><point><x>1000.0</x><y>-1000.0</y></point></position>
      <orientation><exact>1.5707963267948966</exact></orientation><time><exact>0</exact></time>
      <velocity><exact>5.0</exact></velocity></initialState>
    <trajectory>
      <state><position><point><x>1000.0</x><y>-950.0</y></point></position>
        <orientation><exact>1.5707963267948966</exact></orientation><time><exact>1</exact></time></state>
      <state><position><point><x>1040.0</x><y>-920.0</y></point></position>
        <orientation><intervalStart>0.8</intervalStart><intervalEnd>1.0</intervalEnd></orientation>
        <time><exact>2</exact></time><velocity><exact>5.5</exact></velocity></state>
    </trajectory>
  </dynamicObstacle>
  <planningProblem id="5">
    <initialState><position><point><x>0.0</x><y>0.0</y></point></position><orientation><exact>0.0</exact></orientation>
      <time><exact>0</exact></time><velocity><exact>5.0</exact></velocity><yawRate><exact>0</exact></yawRate></initialState>
    <goalState><position><rectangle><length>9</length><width>9</width><orientation>0</orientation>
      <center><x>3000.0</x><y>10.0</y></center></rectangle></position>
      <time><intervalStart>0</intervalStart><intervalEnd>900</intervalEnd></time></goalState>
    <goalState><time><intervalStart>0</intervalStart><intervalEnd>900</intervalEnd></time></goalState>
  </planningProblem>
</commonOcean>
"""
SHALLOW = """<shallow id="8"><shape><polygon>
  <point><x>1500</x><y>200</y></point><point><x>1900</x><y>200</y></point><point><x>1900</x><y>700</y></point>
  <point><x>1500</x><y>700</y></point><point><x>1500</x><y>200</y></point></polygon></shape></shallow>"""
BOX = "<rectangle><length>5</length><width>2</width></rectangle>"


def written(folder, name, content):
    """Write a file and return its path."""
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path
